import { beforeEach, describe, expect, it, vi } from 'vitest'
import { Staff, undecided } from '../staff/api'
import { Seen, troubleOf } from './camera'
import { Gate } from './gate'
import { Burst, isTicket } from './wedge'

const stored = new Map<string, string>()
beforeEach(() => {
  stored.clear()
  vi.stubGlobal('sessionStorage', {
    getItem: (k: string) => stored.get(k) ?? null,
    setItem: (k: string, v: string) => void stored.set(k, v),
    removeItem: (k: string) => void stored.delete(k)
  })
})

// sent are the bodies of the claims that were asked.
function answers(...list: (Response | 'lost')[]) {
  const sent: { code: string; transactionId: string; result?: string }[] = []
  vi.stubGlobal('fetch', async (_: string, init: RequestInit) => {
    sent.push(JSON.parse(init.body as string))
    const next = list.shift()
    if (!next || next === 'lost') throw new TypeError('network')
    return next
  })
  return sent
}

const redemption = { redemptionId: 'red_1', ticketId: 'tkt_1', eventId: 'evt_1', tierId: 'front', transactionId: 't', status: 'used', claimedAt: '', confirmBy: '' }
const granted = (status = 'used', headers: Record<string, string> = {}) => new Response(JSON.stringify({ ...redemption, status }), { status: 201, headers: { 'Usher-Code-Status': status, ...headers } })
const confirmed = (status: string) => new Response(JSON.stringify({ redemptionId: 'red_1', status, result: '', settledAt: '' }), { status: 200 })
const refused = (code: string, status = 409) => new Response(JSON.stringify({ type: '', title: '', status, code }), { status })

describe('a gate', () => {
  const gate = () => new Gate(new Staff('udv_x'), 'dev_1')

  it('keeps the transaction of a lost answer, through a reload, until it is decided', async () => {
    const sent = answers('lost', refused('unavailable', 503), granted('used', { 'Idempotent-Replayed': 'true' }), granted())
    expect(await gate().claim('C')).toEqual({ kind: 'undecided', code: 'C', away: true })
    expect(await gate().claim('C')).toEqual({ kind: 'undecided', code: 'C', away: false })
    expect(gate().open()).toEqual(['C'])
    expect(await gate().claim('C')).toMatchObject({ kind: 'admitted', earlier: true })
    expect(gate().open()).toEqual([])
    await gate().claim('C')
    const ids = sent.map(s => s.transactionId)
    expect(new Set(ids.slice(0, 3)).size).toBe(1)
    expect(ids[3]).not.toBe(ids[0])
  })

  it('knows the scan that was on the screen, until it is decided or set aside', async () => {
    answers('lost', 'lost', granted())
    await gate().claim('A')
    expect(gate().current()).toBe('A')
    await gate().claim('B')
    expect(gate().current()).toBe('B')
    gate().setAside()
    expect(gate().current()).toBe('')
    expect(gate().open()).toEqual(['A', 'B'])
    await gate().claim('B')
    expect(gate().current()).toBe('')
  })

  it('counts what was decided, once', async () => {
    answers(granted(), refused('code_used'), 'lost')
    const g = gate()
    await g.claim('A')
    await g.claim('A')
    await g.claim('B')
    expect(g.counts()).toEqual({ admitted: 1, refused: 1 })
  })

  it('refuses a claim that was frozen or cancelled before its answer came', async () => {
    answers(granted('abnormal'), granted('voided'))
    expect(await gate().claim('A')).toMatchObject({ kind: 'refused', problem: { code: 'code_abnormal' } })
    expect(await gate().claim('B')).toMatchObject({ kind: 'refused', problem: { code: 'code_voided' } })
  })

  it('confirms with the transaction of the claim and says it again when no answer came', async () => {
    const sent = answers(granted('processing'), 'lost', confirmed('used'))
    const g = gate()
    const v = await g.claim('A')
    if (v.kind !== 'claimed') throw new Error(v.kind)
    expect(await g.confirm(v.redemption, 'admitted')).toBeNull()
    expect(g.open()).toEqual(['A'])
    expect(await g.confirm(v.redemption, 'admitted')).toMatchObject({ kind: 'admitted' })
    expect(sent.slice(1)).toEqual(Array(2).fill({ transactionId: 't', result: 'admitted' }))
    expect(g.counts()).toEqual({ admitted: 1, refused: 0 })
  })

  it('a report that nobody was let in lets nobody in, and the first report counts', async () => {
    const sent = answers(granted('processing'), granted('processing'), confirmed('abnormal'), granted('processing'), confirmed('used'))
    await gate().claim('A')
    // A page that is loaded anew meanwhile comes back to the claim.
    const g = gate()
    expect(g.current()).toBe('A')
    const v = await g.claim('A')
    if (v.kind !== 'claimed') throw new Error(v.kind)
    expect(sent[1]).toEqual(sent[0])
    const reported = { ...v.redemption, transactionId: sent[0]!.transactionId }
    expect(await g.confirm(reported, 'failed')).toMatchObject({ kind: 'refused', problem: { code: 'not_let_in' } })
    expect(g.open()).toEqual([])
    const w = await g.claim('B')
    if (w.kind !== 'claimed') throw new Error(w.kind)
    expect(await g.confirm(w.redemption, 'failed')).toMatchObject({ kind: 'admitted' })
    expect(g.counts()).toEqual({ admitted: 1, refused: 1 })
  })

  it('ends with its credential', async () => {
    answers(refused('unauthenticated', 401))
    expect(await gate().claim('A')).toEqual({ kind: 'signedOut' })
  })
})

it('a refusal under the locks is a decision, trouble is none', () => {
  expect([0, 429, 500, 502, 503].every(undecided)).toBe(true)
  expect([201, 400, 401, 404, 409, 422].some(undecided)).toBe(false)
})

describe('a burst of keys', () => {
  const type = (text: string, gap: number, b = new Burst()) => {
    let at = 1000
    let out = ''
    for (const key of [...text, 'Enter']) out = b.key(key, (at += gap))
    return out
  }

  it('of a scanner is a code', () => expect(type('ABC-123456', 12)).toBe('ABC-123456'))
  it('of a slow scanner, too', () => expect(type('ABC-123456', 60)).toBe('ABC-123456'))
  it('of one that stumbles, too', () => {
    const b = new Burst()
    let at = 0
    for (const key of 'ABC-123456') b.key(key, (at += key === '3' ? 400 : 12))
    expect(b.key('Enter', at + 400)).toBe('ABC-123456')
  })
  it('of a person who thinks is none', () => expect(type('ABC-123456', 600)).toBe(''))
  it('is a ticket by its shape', () => {
    expect(isTicket('0000G-ABCDEFGH JKMNPQRSTVWXYZ01-234567')).toBe(false)
    expect(isTicket('0000G-abcdefgh jkmnpqrstvwxyz01-234')).toBe(true)
    expect(isTicket('4006381333931')).toBe(false)
  })
  it('that is too short is none', () => expect(type('12', 5)).toBe(''))
  it('begins anew after a pause, and leaves out keys that are no characters', () => {
    const b = new Burst()
    b.key('x', 0)
    let at = 5000
    let out = ''
    for (const key of ['Shift', 'A', 'b', 'c', 'd', 'e', 'f', 'Enter']) out = b.key(key, (at += 10))
    expect(out).toBe('Abcdef')
  })
})

it('a ticket before the camera is scanned once per showing', () => {
  const s = new Seen()
  expect(s.fresh('A', 0)).toBe(true)
  expect(s.fresh('A', 100)).toBe(false)
  expect(s.fresh(null, 200)).toBe(false)
  expect(s.fresh('A', 1500)).toBe(false)
  expect(s.fresh('B', 1600)).toBe(true)
  expect(s.fresh('A', 1700)).toBe(true)
  expect(s.fresh('A', 4000)).toBe(true)
})

it('says why there is no camera', () => {
  expect(troubleOf(new DOMException('', 'NotAllowedError'))).toBe('denied')
  expect(troubleOf(new DOMException('', 'NotReadableError'))).toBe('busy')
  expect(troubleOf(new DOMException('', 'NotFoundError'))).toBe('none')
})
