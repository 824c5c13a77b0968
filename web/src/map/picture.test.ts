import { describe, expect, it } from 'vitest'
import { Picture, unpack, type Frame, type Snapshot } from './picture'

const pack = (states: number[]): string => {
  const bytes = new Uint8Array((states.length + 3) >> 2)
  states.forEach((s, i) => { bytes[i >> 2]! |= s << (6 - 2 * (i & 3)) })
  return btoa(String.fromCharCode(...bytes))
}
const snapshot = (seq: number, lapse: number, states = [0, 0, 0, 0, 0, 0]): Snapshot => ({ chart: 'c', count: states.length, seq, lapse, live: true, states: pack(states) })
const frame = (from: number, to: number, lapseFrom: number, lapse: number, changes: [number, number][] = []): Frame => ({ from, to, lapseFrom, lapse, live: true, changes })

function started(): { p: Picture; told: number[][] } {
  const told: number[][] = []
  const p = new Picture(c => { told.push(c) })
  expect(p.take(snapshot(10, 1000))).toBe('done')
  told.length = 0
  return { p, told }
}

describe('snapshot', () => {
  it('has two bits a seat, the first in the highest', () => {
    expect([...unpack('G8A=', 5)]).toEqual([0, 1, 2, 3, 3])
    expect([...unpack(pack([3, 2, 1, 0, 1]), 5)]).toEqual([3, 2, 1, 0, 1])
  })
  it('of another length is refused', () => {
    expect(() => unpack('GwA=', 4)).toThrow()
    expect(() => unpack('', 1)).toThrow()
  })
  it('tells what is another than before', () => {
    const { p, told } = started()
    expect(p.take(snapshot(12, 1000, [0, 1, 0, 0, 0, 2]))).toBe('done')
    expect(told).toEqual([[1, 5]])
  })
  it('that is older does not turn back what is known', () => {
    const { p, told } = started()
    expect(p.take(snapshot(9, 2000, [2, 2, 2, 2, 2, 2]))).toBe('old')
    expect(told).toEqual([])
    p.restart()
    expect(p.take(snapshot(9, 2000, [2, 2, 2, 2, 2, 2]))).toBe('done')
  })
})

describe('frames', () => {
  it('follow each other', () => {
    const { p, told } = started()
    expect(p.frame(frame(10, 12, 1000, 1250, [[0, 1], [3, 2]]))).toBe('done')
    expect(p.frame(frame(12, 12, 1000, 1500, [[0, 0]]))).toBe('done')
    expect([...p.states]).toEqual([0, 0, 0, 2, 0, 0])
    expect(told).toEqual([[0, 3], [0]])
    expect(p.after).toBe('12.1500')
  })
  it('that are old news change nothing', () => {
    const { p, told } = started()
    expect(p.frame(frame(3, 9, 0, 5000, [[0, 2]]))).toBe('old')
    expect(p.frame(frame(9, 10, 0, 1000, [[0, 2]]))).toBe('old')
    expect(told).toEqual([])
  })
  it('may begin before one\'s own position', () => {
    const { p } = started()
    expect(p.frame(frame(4, 11, 0, 1250, [[2, 1]]))).toBe('done')
    expect(p.seq).toBe(11)
  })
  it('lapse by time alone', () => {
    const { p } = started()
    p.frame(frame(10, 11, 1000, 1250, [[4, 1]]))
    expect(p.frame(frame(11, 11, 1000, 1500, [[4, 0]]))).toBe('done')
    expect(p.states[4]).toBe(0)
  })
  it('after a hole wait for a snapshot and follow it', () => {
    const { p } = started()
    expect(p.frame(frame(12, 13, 1000, 1500, [[1, 2]]))).toBe('snapshot')
    expect(p.frame(frame(13, 14, 1000, 1750, [[2, 2]]))).toBe('done')
    expect(p.seq).toBe(10)
    expect(p.take(snapshot(12, 1300, [3, 0, 0, 0, 0, 0]))).toBe('done')
    expect([...p.states]).toEqual([3, 2, 2, 0, 0, 0])
    expect(p.after).toBe('14.1750')
  })
  it('a deadline that was missed is a hole, too', () => {
    const { p } = started()
    expect(p.frame(frame(10, 11, 1100, 1500))).toBe('snapshot')
  })
  it('ask again for a snapshot that is still behind', () => {
    const { p } = started()
    p.frame(frame(12, 13, 1000, 1500, [[1, 2]]))
    p.frame(frame(13, 14, 1000, 1750, [[2, 2]]))
    expect(p.take(snapshot(11, 1200))).toBe('snapshot')
    expect(p.waiting).toBe(true)
    expect(p.take(snapshot(13, 1500, [0, 2, 0, 0, 0, 0]))).toBe('done')
    expect([...p.states]).toEqual([0, 2, 2, 0, 0, 0])
  })
  it('more than a hundred of them are too many to keep', () => {
    const { p } = started()
    let last = p.frame(frame(12, 13, 1000, 1500))
    for (let i = 13; last !== 'restart' && i < 200; i++) last = p.frame(frame(i, i + 1, 1000, 1500))
    expect(last).toBe('restart')
  })
  it('that name no seat begin anew', () => {
    const { p } = started()
    expect(p.frame(frame(10, 11, 1000, 1250, [[6, 1]]))).toBe('restart')
    expect(p.frame(frame(10, 11, 1000, 1250, [[0, 4]]))).toBe('restart')
  })
})

describe('reset', () => {
  it('throws kept frames away and refuses an older snapshot', () => {
    const { p } = started()
    p.frame(frame(12, 13, 1000, 1500, [[1, 2]]))
    expect(p.reset({ seq: 20, lapse: 3000, live: true })).toBe('snapshot')
    expect(p.frame(frame(20, 21, 1000, 3250, [[5, 1]]))).toBe('done')
    expect(p.take(snapshot(19, 9000))).toBe('snapshot')
    expect(p.take(snapshot(20, 2999))).toBe('snapshot')
    expect(p.take(snapshot(20, 3000))).toBe('done')
    expect([...p.states]).toEqual([0, 0, 0, 0, 0, 1])
    expect(p.after).toBe('21.3250')
  })
  it('may go back where a database was set back', () => {
    const { p } = started()
    p.reset({ seq: 5, lapse: 500, live: true })
    expect(p.take(snapshot(5, 600, [1, 0, 0, 0, 0, 0]))).toBe('done')
    expect(p.seq).toBe(5)
  })
})
