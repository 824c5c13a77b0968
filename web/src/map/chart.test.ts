import { describe, expect, it } from 'vitest'
import { ACCESSIBLE, Chart, COMPANION, decorationBox, type ChartFile } from './chart'
import { hall } from '../../test/map/hall'

const small: ChartFile = {
  name: 'Small',
  tiers: [{ id: 'a', name: 'A', color: 'red' }, { id: 'b', name: 'B', color: '#00f' }],
  sections: [
    { name: 'Left', rows: [{ label: 'A', seats: [{ id: 'A-1', label: '1', x: 0, y: 0, tier: 'a', accessible: true }, { id: 'A-2', label: '2', x: 10, y: 0, tier: 'a', companion: true }] }] },
    { name: 'Right', rows: [{ label: 'A', seats: [{ id: '９', label: '１', x: 40, y: 0, tier: 'b' }] }, { label: 'B', seats: [{ id: 'B-1', label: '1', x: 40, y: 14, tier: 'b' }] }] }
  ],
  decorations: [{ shape: 'rectangle', x: -20, y: -30, width: 10, height: 10, color: '#222' }]
}

describe('chart', () => {
  it('numbers seats in the order of the file', () => {
    const c = new Chart(small)
    expect(c.count).toBe(4)
    expect(c.ids).toEqual(['A-1', 'A-2', '９', 'B-1'])
    expect(c.ordinal('B-1')).toBe(3)
    expect(c.ordinal('nobody')).toBe(-1)
    expect(c.sectionOf(2).name).toBe('Right')
    expect(c.row(3).label).toBe('B')
    expect(c.tier(2).id).toBe('b')
    expect([...c.flags]).toEqual([ACCESSIBLE, COMPANION, 0, 0])
    expect(c.sections[1]).toMatchObject({ firstRow: 1, rowCount: 2, first: 2, count: 2 })
  })
  it('knows what it covers', () => {
    const c = new Chart(small)
    expect(c.seatBounds).toEqual({ left: 0, top: 0, right: 40, bottom: 14 })
    expect(c.bounds).toEqual({ left: -20, top: -30, right: 40, bottom: 14 })
    expect(c.drawable).toBe(true)
  })
  it('finds the distance between seats of a large hall', () => {
    const c = new Chart(hall(50_000))
    expect(c.count).toBe(50_000)
    expect(c.pitch).toBeGreaterThan(9)
    expect(c.pitch).toBeLessThan(11)
  })
  it('does not call seats that lie on each other a picture', () => {
    const seats = Array.from({ length: 50 }, (_, i) => ({ id: String(i), label: String(i), x: 5, y: 5, tier: 'a' }))
    expect(new Chart({ ...small, sections: [{ name: 'S', rows: [{ label: '1', seats }] }] }).drawable).toBe(false)
  })
  it('draws a single seat', () => {
    const one = new Chart({ ...small, sections: [{ name: 'S', rows: [{ label: '1', seats: [{ id: 'x', label: '1', x: 5, y: 5, tier: 'a' }] }] }] })
    expect(one.drawable).toBe(true)
    expect(one.size).toBeGreaterThan(0)
  })
  it('bounds decorations, turned ones too', () => {
    expect(decorationBox({ shape: 'ellipse', x: 10, y: 10, width: 4, height: 2 })).toEqual({ left: 8, top: 9, right: 12, bottom: 11 })
    expect(decorationBox({ shape: 'polygon', x: 1, y: 1, points: [[0, 0], [4, 0], [0, 3]] })).toEqual({ left: 1, top: 1, right: 5, bottom: 4 })
    const turned = decorationBox({ shape: 'rectangle', x: 0, y: 0, width: 3, height: 4, rotation: 45 })
    expect(turned).toEqual({ left: -5, top: -5, right: 5, bottom: 5 })
  })
})
