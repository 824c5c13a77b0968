import { describe, expect, it } from 'vitest'
import { Chart } from './chart'
import { Grid } from './grid'
import { hall } from '../../test/map/hall'

const xs = Float32Array.from({ length: 100 }, (_, i) => (i % 10) * 10)
const ys = Float32Array.from({ length: 100 }, (_, i) => Math.floor(i / 10) * 12)
const square = new Grid(xs, ys, { left: 0, top: 0, right: 90, bottom: 108 })

describe('grid', () => {
  it('finds what looking at every seat finds', () => {
    const c = new Chart(hall(5000))
    for (let k = 0; k < 200; k++) {
      const x = -900 + (k * 37) % 1800, y = -900 + (k * 91) % 1800
      let best = -1, distance = 30
      for (let i = 0; i < c.count; i++) {
        const d = Math.hypot(c.x[i]! - x, c.y[i]! - y)
        if (d < distance) {
          distance = d
          best = i
        }
      }
      expect(c.grid.nearest(x, y, 30)).toBe(best)
      const r = { left: x, top: y, right: x + 100, bottom: y + 60 }
      const inside = [...c.x.keys()].filter(i => c.x[i]! >= r.left && c.x[i]! <= r.right && c.y[i]! >= r.top && c.y[i]! <= r.bottom)
      expect([...c.grid.within(r)]).toEqual(inside)
    }
  })
  it('hits the seat under a finger and none beside the seats', () => {
    expect(square.nearest(31, 25, 6)).toBe(23)
    expect(square.nearest(-40, 0, 6)).toBe(-1)
  })
  it('walks by arrow keys and stops at the edge', () => {
    expect(square.next(23, 1, 0, 10)).toBe(24)
    expect(square.next(23, -1, 0, 10)).toBe(22)
    expect(square.next(23, 0, 1, 10)).toBe(33)
    expect(square.next(23, 0, -1, 10)).toBe(13)
    expect(square.next(29, 1, 0, 10)).toBe(-1)
  })
  it('walks over an aisle', () => {
    const x = Float32Array.from([0, 10, 200]), y = Float32Array.from([0, 0, 0])
    expect(new Grid(x, y, { left: 0, top: 0, right: 200, bottom: 0 }).next(1, 1, 0, 10)).toBe(2)
  })
  it('is not larger than its seats, however far apart they are', () => {
    const far = new Grid(Float32Array.from([-1e6, 1e6]), Float32Array.from([0, 0]), { left: -1e6, top: 0, right: 1e6, bottom: 0 })
    expect(far.nearest(1e6, 0, 5)).toBe(1)
    expect(new Grid(new Float32Array(0), new Float32Array(0), { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity }).nearest(0, 0, 5)).toBe(-1)
  })
})
