// What one seat looks like, by its state: a shape of its own besides a colour, so that
// nobody needs to tell colours apart. Two ways to draw it: marks for seats of some
// size, boxes of blended pixels for seats of a few pixels each.
import { ACCESSIBLE, COMPANION } from './chart'
import { BLOCKED, FREE, HELD, SOLD } from './picture'
import { css, mix, on, type RGB, type Theme } from './theme'

/** DENSE_BELOW is the side in device pixels below which seats are boxes. */
export const DENSE_BELOW = 8

/** Look is what decides how a seat is drawn. */
export interface Look { state: number; tier: number; flags: number; dim: boolean }

/** Marks makes the marks of one size and keeps them. */
export class Marks {
  readonly side: number
  private readonly made = new Map<number, HTMLCanvasElement>()

  constructor(side: number, private readonly theme: Theme, private readonly colors: RGB[]) {
    this.side = Math.max(2, Math.round(side))
  }

  mark(l: Look): HTMLCanvasElement {
    const key = l.state === FREE ? (l.tier * 4 + l.flags) * 2 + Number(l.dim) : -l.state
    let c = this.made.get(key)
    if (!c) {
      c = document.createElement('canvas')
      c.width = c.height = this.side
      this.draw(c.getContext('2d')!, l)
      this.made.set(key, c)
    }
    return c
  }

  private draw(ctx: CanvasRenderingContext2D, l: Look): void {
    const s = this.side
    switch (l.state) {
      case FREE: return this.free(ctx, l)
      case HELD: {
        // Somebody is thinking about it: an empty seat with a dot.
        const line = Math.max(1, s / 12)
        ctx.strokeStyle = css(this.theme.soft)
        ctx.fillStyle = css(this.theme.soft)
        ctx.lineWidth = line
        box(ctx, s * 0.1 + line / 2, s * 0.8 - line, s * 0.2)
        ctx.stroke()
        ctx.beginPath()
        ctx.arc(s / 2, s / 2, s * 0.12, 0, 7)
        ctx.fill()
        return
      }
      case SOLD:
        ctx.strokeStyle = css(mix(this.theme.soft, this.theme.paper, 0.35))
        ctx.lineWidth = Math.max(1, s / 10)
        ctx.beginPath()
        ctx.moveTo(s * 0.3, s * 0.3)
        ctx.lineTo(s * 0.7, s * 0.7)
        ctx.moveTo(s * 0.7, s * 0.3)
        ctx.lineTo(s * 0.3, s * 0.7)
        ctx.stroke()
        return
      case BLOCKED:
        ctx.fillStyle = css(mix(this.theme.soft, this.theme.paper, 0.55))
        ctx.fillRect(s * 0.3, s * 0.45, s * 0.4, Math.max(1, s * 0.1))
    }
  }

  private free(ctx: CanvasRenderingContext2D, l: Look): void {
    const s = this.side, color = this.colors[l.tier]!
    ctx.globalAlpha = l.dim ? 0.2 : 1
    ctx.fillStyle = css(color)
    if (l.flags & ACCESSIBLE) {
      ctx.beginPath()
      ctx.arc(s / 2, s / 2, s / 2, 0, 7)
    } else {
      box(ctx, 0, s, s * 0.24)
    }
    ctx.fill()
    const sign = css(on(color))
    ctx.strokeStyle = ctx.fillStyle = sign
    ctx.lineCap = 'round'
    if (l.flags & ACCESSIBLE) wheelchair(ctx, s)
    if (l.flags & COMPANION) {
      ctx.lineWidth = Math.max(1, s / 9)
      ctx.beginPath()
      ctx.moveTo(s * 0.5, s * 0.28)
      ctx.lineTo(s * 0.5, s * 0.72)
      ctx.moveTo(s * 0.28, s * 0.5)
      ctx.lineTo(s * 0.72, s * 0.5)
      ctx.stroke()
    }
  }
}

function box(ctx: CanvasRenderingContext2D, at: number, side: number, radius: number): void {
  ctx.beginPath()
  ctx.roundRect(at, at, side, side, radius)
}

/** wheelchair is a head, a back with a seat, and a wheel. */
function wheelchair(ctx: CanvasRenderingContext2D, s: number): void {
  ctx.lineWidth = Math.max(1, s / 13)
  ctx.beginPath()
  ctx.arc(s * 0.42, s * 0.22, s * 0.075, 0, 7)
  ctx.fill()
  ctx.beginPath()
  ctx.moveTo(s * 0.42, s * 0.36)
  ctx.lineTo(s * 0.42, s * 0.54)
  ctx.lineTo(s * 0.6, s * 0.54)
  ctx.lineTo(s * 0.68, s * 0.74)
  ctx.stroke()
  ctx.beginPath()
  ctx.arc(s * 0.44, s * 0.62, s * 0.19, -2.2, -5.5, true)
  ctx.stroke()
}

/** Dot is a seat of a few pixels: its colour, its share of the whole side, its weight. */
export interface Dot { color: RGB; share: number; weight: number }

/** dots are the looks of seats that are boxes: what is taken is smaller as well as paler. */
export function dots(theme: Theme, colors: RGB[]): (l: Look) => Dot {
  const free = colors.map(color => ({ color, share: 1.08, weight: 1 }))
  const dim = colors.map(color => ({ color, share: 0.9, weight: 0.2 }))
  const held: Dot = { color: theme.soft, share: 0.75, weight: 0.65 }
  const sold: Dot = { color: theme.soft, share: 0.6, weight: 0.38 }
  const blocked: Dot = { color: theme.soft, share: 0.5, weight: 0.25 }
  return l => {
    if (l.state === FREE) return (l.dim ? dim : free)[l.tier]!
    return l.state === HELD ? held : l.state === SOLD ? sold : blocked
  }
}

/** addBox blends a box into pixels as RGBA: every pixel by how much of it is covered, so that a hall of 50,000 seats stays even at two pixels a seat. */
export function addBox(pixels: Uint8ClampedArray, width: number, height: number, x: number, y: number, side: number, color: RGB, weight: number): void {
  const left = Math.max(0, x - side / 2), right = Math.min(width, x + side / 2)
  const top = Math.max(0, y - side / 2), bottom = Math.min(height, y + side / 2)
  for (let py = Math.floor(top); py < bottom; py++) {
    const tall = Math.min(bottom, py + 1) - Math.max(top, py)
    for (let px = Math.floor(left); px < right; px++) {
      const more = 255 * weight * tall * (Math.min(right, px + 1) - Math.max(left, px))
      const at = (py * width + px) * 4
      const before = pixels[at + 3]!, sum = before + more
      if (before === 0) {
        pixels[at] = color[0]
        pixels[at + 1] = color[1]
        pixels[at + 2] = color[2]
      } else {
        const share = more / sum
        pixels[at]! += (color[0] - pixels[at]!) * share
        pixels[at + 1]! += (color[1] - pixels[at + 1]!) * share
        pixels[at + 2]! += (color[2] - pixels[at + 2]!) * share
      }
      pixels[at + 3] = sum
    }
  }
}
