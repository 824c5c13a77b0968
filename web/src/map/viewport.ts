// Where the map is looked at from. Pure: every move makes a new viewport.
import type { Rect } from './grid'

/** Viewport shows the chart point (x, y) at the top left corner, scale CSS pixels to a chart unit. */
export interface Viewport { readonly x: number; readonly y: number; readonly scale: number }
export interface Size { readonly width: number; readonly height: number }
export interface Limits { readonly min: number; readonly max: number }

export const toScreen = (v: Viewport, x: number, y: number): { x: number; y: number } => ({ x: (x - v.x) * v.scale, y: (y - v.y) * v.scale })
export const toChart = (v: Viewport, x: number, y: number): { x: number; y: number } => ({ x: v.x + x / v.scale, y: v.y + y / v.scale })

/** shown is the part of the chart that a viewport shows. */
export const shown = (v: Viewport, size: Size): Rect => ({ left: v.x, top: v.y, right: v.x + size.width / v.scale, bottom: v.y + size.height / v.scale })

/** fit shows a box as large as fits, in the middle, with a margin in pixels, at no more than max. */
export function fit(box: Rect, size: Size, margin: number, max = Infinity): Viewport {
  const width = Math.max(box.right - box.left, 1e-6), height = Math.max(box.bottom - box.top, 1e-6)
  const room = { width: Math.max(size.width - 2 * margin, 1), height: Math.max(size.height - 2 * margin, 1) }
  const scale = Math.min(room.width / width, room.height / height, max)
  return { x: (box.left + box.right) / 2 - size.width / 2 / scale, y: (box.top + box.bottom) / 2 - size.height / 2 / scale, scale }
}

export const pan = (v: Viewport, dx: number, dy: number): Viewport => ({ x: v.x - dx / v.scale, y: v.y - dy / v.scale, scale: v.scale })

/** zoom changes the scale by a factor; what is at the screen point (sx, sy) stays there. */
export function zoom(v: Viewport, factor: number, sx: number, sy: number, limits: Limits): Viewport {
  const scale = Math.min(limits.max, Math.max(limits.min, v.scale * factor))
  const at = toChart(v, sx, sy)
  return { x: at.x - sx / scale, y: at.y - sy / scale, scale }
}

/** clamp keeps the chart in sight: its edges may come as far as the middle third of the screen, a chart that is smaller than the screen stays within it. */
export function clamp(v: Viewport, box: Rect, size: Size): Viewport {
  const axis = (at: number, low: number, high: number, span: number): number => {
    const room = span / v.scale
    if (high - low <= room) return Math.min(low, Math.max(high - room, at))
    return Math.min(high - room * 2 / 3, Math.max(low - room / 3, at))
  }
  return { x: axis(v.x, box.left, box.right, size.width), y: axis(v.y, box.top, box.bottom, size.height), scale: v.scale }
}

/** between is a viewport on the way from one to another; the middle of the screen and the logarithm of the scale move evenly. */
export function between(a: Viewport, b: Viewport, share: number, size: Size): Viewport {
  if (share >= 1) return b
  const scale = a.scale * (b.scale / a.scale) ** share
  // Weighted by scale, so that a point that both show stands still while the rest grows around it.
  const w = a.scale === b.scale ? share : (1 / a.scale - 1 / scale) / (1 / a.scale - 1 / b.scale)
  const middle = (v: Viewport): { x: number; y: number } => toChart(v, size.width / 2, size.height / 2)
  const from = middle(a), to = middle(b)
  return { x: from.x + (to.x - from.x) * w - size.width / 2 / scale, y: from.y + (to.y - from.y) * w - size.height / 2 / scale, scale }
}

/** SPEED_MAX is the fastest that a thrown map moves, in pixels a millisecond; SPEED_MIN ends the throw. */
export const SPEED_MAX = 3
export const SPEED_MIN = 0.03
const FADE = 320

export interface Speed { readonly x: number; readonly y: number }

export function bounded(s: Speed): Speed {
  const size = Math.hypot(s.x, s.y)
  return size <= SPEED_MAX ? s : { x: s.x * SPEED_MAX / size, y: s.y * SPEED_MAX / size }
}

/** glide moves a thrown map on by some milliseconds: how far, and how fast it is then; null once it rests. */
export function glide(s: Speed, ms: number): { dx: number; dy: number; speed: Speed | null } {
  const left = Math.exp(-ms / FADE), way = FADE * (1 - left)
  const speed = { x: s.x * left, y: s.y * left }
  return { dx: s.x * way, dy: s.y * way, speed: Math.hypot(speed.x, speed.y) < SPEED_MIN ? null : speed }
}
