// Fingers, mouse and wheel, told apart: one pointer pans, two pinch, a short touch
// without a move is a tap.
import { bounded, type Speed } from './viewport'

export interface Moves {
  pan(dx: number, dy: number): void
  /** zoom reports whether there was any closer or farther to go. */
  zoom(factor: number, x: number, y: number): boolean
  /** hand reports whether fingers are on the map; speed is what they left it with. */
  hand(down: boolean, speed: Speed | null): void
  tap(x: number, y: number): void
  hover(x: number, y: number): void
  leave(): void
}

/** TAP_SLOP is how far a finger may slip and still have tapped. */
const TAP_SLOP = 9
const TAP_TIME = 700
/** WHEEL_PAUSE is how long the wheel rests before it may turn to the page: a turn that ran against the end of the zoom does not. */
const WHEEL_PAUSE = 400
/** THROW_WINDOW is the last part of a move that decides how fast the map goes on. */
const THROW_WINDOW = 90

interface Touch { x: number; y: number }

/** gestures listens on an element and returns what ends it. */
export function gestures(element: HTMLElement, moves: Moves): () => void {
  const down = new Map<number, Touch>()
  let start: Touch & { at: number } | null = null
  let moved = false
  let trail: (Touch & { at: number })[] = []
  const local = (e: MouseEvent): Touch => {
    const r = element.getBoundingClientRect()
    return { x: e.clientX - r.left, y: e.clientY - r.top }
  }
  const spread = (): { x: number; y: number; wide: number } => {
    const [a, b] = [...down.values()] as [Touch, Touch]
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, wide: Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1) }
  }

  const press = (e: PointerEvent): void => {
    if (e.pointerType === 'mouse' && e.button !== 0) return
    const at = local(e)
    down.set(e.pointerId, at)
    element.setPointerCapture(e.pointerId)
    if (down.size === 1) {
      start = { ...at, at: e.timeStamp }
      moved = false
      trail = [{ ...at, at: e.timeStamp }]
    } else {
      // Two fingers never tap.
      moved = true
    }
    moves.hand(true, null)
  }
  const move = (e: PointerEvent): void => {
    const at = local(e), last = down.get(e.pointerId)
    if (!last) {
      if (e.pointerType === 'mouse') moves.hover(at.x, at.y)
      return
    }
    if (down.size === 1) {
      if (!moved && start && Math.hypot(at.x - start.x, at.y - start.y) < TAP_SLOP) return
      // The slip before it was a move is made up for, so that the chart stays under the finger.
      const from = moved || !start ? last : start
      moved = true
      down.set(e.pointerId, at)
      moves.pan(at.x - from.x, at.y - from.y)
      trail.push({ ...at, at: e.timeStamp })
      while (trail.length > 2 && e.timeStamp - trail[0]!.at > THROW_WINDOW) trail.shift()
      return
    }
    if (down.size > 2) return
    const before = spread()
    down.set(e.pointerId, at)
    const after = spread()
    moves.pan(after.x - before.x, after.y - before.y)
    moves.zoom(after.wide / before.wide, after.x, after.y)
  }
  const lift = (e: PointerEvent): void => {
    if (!down.delete(e.pointerId)) return
    if (down.size > 0) {
      trail = []
      return
    }
    const tapped = e.type === 'pointerup' && !moved && start && e.timeStamp - start.at < TAP_TIME
    const first = trail[0], last = trail[trail.length - 1]
    let speed: Speed | null = null
    if (moved && e.type === 'pointerup' && first && last && last.at > first.at && e.timeStamp - last.at < THROW_WINDOW) {
      speed = bounded({ x: (last.x - first.x) / (last.at - first.at), y: (last.y - first.y) / (last.at - first.at) })
    }
    moves.hand(false, speed)
    if (tapped) moves.tap(start!.x, start!.y)
  }
  let wheeled = -Infinity
  const wheel = (e: WheelEvent): void => {
    const at = local(e)
    // Lines and pages as pixels; a pinch on a trackpad comes as a small wheel with ctrl.
    const pixels = e.deltaY * (e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 400 : 1)
    const zoomed = moves.zoom(Math.exp(-Math.max(-240, Math.min(240, pixels)) * (e.ctrlKey ? 0.01 : 0.002)), at.x, at.y)
    // Where the map has no farther to go, the wheel is the page's.
    if (!zoomed && !e.ctrlKey && e.timeStamp - wheeled > WHEEL_PAUSE) return
    wheeled = e.timeStamp
    e.preventDefault()
  }
  const out = (): void => moves.leave()

  const stop = new AbortController(), signal = stop.signal
  element.addEventListener('pointerdown', press, { signal })
  element.addEventListener('pointermove', move, { signal })
  element.addEventListener('pointerup', lift, { signal })
  element.addEventListener('pointercancel', lift, { signal })
  element.addEventListener('pointerleave', out, { signal })
  element.addEventListener('wheel', wheel, { signal, passive: false })
  return () => stop.abort()
}
