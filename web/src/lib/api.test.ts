import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { backoff, call, newKey, sure } from './api'
import { clock, clockFace } from './clock'
import { trying } from './trying.svelte'

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(body === null ? null : JSON.stringify(body), { status, headers })

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

// A write whose answers get lost goes out again as it was, key and all, until one
// answer is there.
test('a lost answer is asked for again with the same key', async () => {
  const fetch = vi.fn()
    .mockRejectedValueOnce(new Error('gone'))
    .mockResolvedValueOnce(answer(503, { code: 'unavailable' }, { 'Retry-After': '2' }))
    .mockResolvedValueOnce(answer(201, { holdId: 'hld_1' }))
  vi.stubGlobal('fetch', fetch)
  const done = sure('POST', '/v1/holds', { idempotencyKey: 'k' })
  await vi.advanceTimersByTimeAsync(1)
  expect(trying.count).toBe(1)
  await vi.runAllTimersAsync()
  expect(trying.count).toBe(0)
  expect(await done).toMatchObject({ status: 201, body: { holdId: 'hld_1' } })
  expect(fetch).toHaveBeenCalledTimes(3)
  expect(new Set(fetch.mock.calls.map(c => c[1].body))).toEqual(new Set(['{"idempotencyKey":"k"}']))
})

test('a refusal is final', async () => {
  const fetch = vi.fn().mockResolvedValue(answer(409, { code: 'seats_unavailable' }))
  vi.stubGlobal('fetch', fetch)
  expect(await sure('POST', '/v1/holds', {})).toMatchObject({ status: 409, body: null, problem: { code: 'seats_unavailable' } })
  expect(fetch).toHaveBeenCalledTimes(1)
})

test('the wait is never shorter than asked for, beyond the scatter', () => {
  for (let turn = 0; turn < 10; turn++) {
    expect(backoff(turn, 5)).toBeGreaterThanOrEqual(4)
    expect(backoff(turn)).toBeLessThanOrEqual(9.6)
  }
})

// P16: the device's time of day plays no part.
test('the clock is the server\'s', async () => {
  vi.stubGlobal('fetch', vi.fn().mockResolvedValue(answer(200, {}, { 'Usher-Time': '2026-12-02T10:00:00.000Z' })))
  await call('GET', '/v1/x')
  vi.setSystemTime(new Date('2030-01-01T00:00:00Z'))
  expect(Math.abs(clock.now() - Date.parse('2026-12-02T10:00:00Z'))).toBeLessThan(2000)
})

test('the face of a clock', () => {
  expect([0, 999, 59_001, 600_000, 3_600_000, -5].map(clockFace)).toEqual(['0:00', '0:01', '1:00', '10:00', '1:00:00', '0:00'])
})

test('keys differ', () => {
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/)
  expect(newKey()).not.toBe(newKey())
})
