import { describe, expect, it } from 'vitest'
import { between, bounded, clamp, fit, glide, pan, shown, SPEED_MAX, toChart, toScreen, zoom } from './viewport'

const size = { width: 400, height: 300 }
const box = { left: -100, top: -50, right: 300, bottom: 150 }
const limits = { min: 0.1, max: 20 }

describe('viewport', () => {
  it('fits a box into the middle', () => {
    const v = fit(box, size, 10)
    expect(v.scale).toBeCloseTo(0.95)
    const a = toScreen(v, box.left, box.top), b = toScreen(v, box.right, box.bottom)
    expect(a.x).toBeCloseTo(10)
    expect(b.x).toBeCloseTo(390)
    expect(a.y + b.y).toBeCloseTo(300)
    expect(fit(box, size, 10, 0.5).scale).toBe(0.5)
  })
  it('keeps the point under the finger while it zooms', () => {
    let v = fit(box, size, 10)
    const before = toChart(v, 123, 45)
    v = zoom(v, 3, 123, 45, limits)
    const after = toChart(v, 123, 45)
    expect(after.x).toBeCloseTo(before.x)
    expect(after.y).toBeCloseTo(before.y)
    expect(zoom(v, 1e9, 0, 0, limits).scale).toBe(20)
    expect(zoom(v, 1e-9, 0, 0, limits).scale).toBe(0.1)
  })
  it('pans by pixels and comes back', () => {
    const v = { x: 5, y: 6, scale: 4 }
    expect(pan(v, 8, -4)).toEqual({ x: 3, y: 7, scale: 4 })
    expect(pan(pan(v, 8, -4), -8, 4)).toEqual(v)
  })
  it('never loses the chart', () => {
    for (const scale of [0.2, 1, 5]) {
      for (const far of [-1e7, 1e7]) {
        const r = shown(clamp({ x: far, y: far, scale }, box, size), size)
        expect(r.left < box.right && r.right > box.left && r.top < box.bottom && r.bottom > box.top).toBe(true)
      }
    }
    const whole = fit(box, size, 10)
    expect(clamp(whole, box, size)).toEqual(whole)
  })
  it('goes from one place to another without a jump', () => {
    const a = fit(box, size, 10), b = zoom(pan(a, 30, 20), 8, 200, 150, limits)
    expect(between(a, b, 1, size)).toEqual(b)
    const start = between(a, b, 0, size)
    expect(start.x).toBeCloseTo(a.x)
    expect(start.scale).toBeCloseTo(a.scale)
    const half = between(a, b, 0.5, size)
    expect(half.scale).toBeCloseTo(Math.sqrt(a.scale * b.scale))
  })
  it('ends every throw', () => {
    let speed: { x: number; y: number } | null = bounded({ x: 40, y: -30 })
    expect(Math.hypot(speed.x, speed.y)).toBeCloseTo(SPEED_MAX)
    let way = 0, ms = 0
    for (; speed && ms < 10_000; ms += 16) {
      const g: ReturnType<typeof glide> = glide(speed, 16)
      way += Math.hypot(g.dx, g.dy)
      speed = g.speed
    }
    expect(ms).toBeLessThan(2000)
    expect(way).toBeLessThan(1000)
  })
})
