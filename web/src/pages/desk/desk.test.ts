import { expect, it } from 'vitest'
import { major, minor } from './amount'
import type { Live } from './desk.svelte'
import { Past, span } from './history'

it('amounts are read by the decimals of their currency', () => {
  for (const [text, digits, want] of [
    ['1200', 0, 1200], ['1,200', 0, 1200], ['12.5', 2, 1250], ['12.50', 2, 1250], ['0', 2, 0], ['1.234', 3, 1234],
    ['1.5', 0, null], ['12.345', 2, null], ['-1', 2, null], ['abc', 2, null], ['', 2, null], ['1e3', 0, null], ['1,2', 0, null]
  ] as const) {
    expect(minor(text, digits), text).toBe(want)
  }
  for (const digits of [0, 2, 3]) expect(minor(major(1200, digits), digits)).toBe(1200)
})

const look = (second: number, change: Partial<Live> = {}): Live => ({
  eventId: 'evt_1', sale: 'open', pressure: 0,
  holds: { held: 1, paying: 0, overdue: 2, oldestOverdueSeconds: 3 },
  decisions: { granted: second * 10, conflicts: second, refused: 0, since: '2026-12-01T00:00:00Z' },
  payments: { open: 1, parked: 0, unknown: 1, oldestUnknownSeconds: 4, operations: [] },
  tiers: [{ tierId: 'a', name: 'A', kind: 'seated', known: true, capacity: 10, available: 5, held: 2, sold: 3, blocked: 0 }],
  serverTime: new Date(Date.UTC(2026, 11, 1, 12, 0, second)).toISOString(),
  ...change
})

it('rates are differences over server time, and the same look counts once', () => {
  const p = new Past()
  p.add(look(0))
  p.add(look(0))
  p.add(look(4))
  expect(p.at.length).toBe(2)
  expect(p.of.granted).toEqual([null, 10])
  expect(p.of.conflicts).toEqual([null, 1])
  expect(p.of.sold).toEqual([3, 3])
  expect(p.of.waiting).toEqual([null, null])
})

it('a process that started anew makes no negative rate', () => {
  const p = new Past()
  p.add(look(10))
  p.add(look(12, { decisions: { granted: 1, conflicts: 0, refused: 0, since: '2026-12-01T01:00:00Z' } }))
  expect(p.of.granted).toEqual([null, null])
})

it('plots keep a quarter of an hour', () => {
  const p = new Past()
  for (let i = 0; i < 500; i++) p.add(look(i * 2))
  expect(p.at.length).toBe(450)
  expect(p.of.sold.length).toBe(450)
})

it('a plot shows a minute at least, whatever was seen', () => {
  const [from, to] = span([])
  expect(to - from).toBe(60)
  expect(span([1000])).toEqual([940, 1000])
  expect(span([990, 1000])).toEqual([940, 1000])
  expect(span([100, 500, 1000])).toEqual([100, 1000])
})
