import { describe, expect, it } from 'vitest'
import { Feed, type Reply, type Source } from './feed'

const ok = (seq: number, states = 'AAA=', more: Partial<Reply> = {}): Reply => ({ status: 200, snapshot: { chart: 'c', count: 6, seq, lapse: 1000, live: true, states }, etag: 'e' + seq, wait: 0, ...more })
const no = (status: number, wait = 0): Reply => ({ status, snapshot: null, etag: '', wait })

class FakeStream extends EventTarget {
  readyState = 1
  closed = false
  constructor(readonly after: string) { super() }
  close(): void { this.closed = true; this.readyState = 2 }
  say(event: string, data: unknown): void { this.dispatchEvent(new MessageEvent(event, { data: typeof data === 'string' ? data : JSON.stringify(data) })) }
  refuse(): void { this.readyState = 2; this.dispatchEvent(new Event('error')) }
}

/** world is a source whose time goes when the test says so. */
function world(replies: Reply[], inside = true) {
  let now = 0, next = 1
  const timers = new Map<number, { at: number; call: () => void }>()
  const streams: FakeStream[] = [], asked: string[] = [], seen: string[] = [], failed: number[] = [], live: boolean[] = []
  const source: Source = {
    async snapshot(etag) {
      asked.push(etag)
      return replies.shift() ?? no(0)
    },
    stream(after) {
      const s = new FakeStream(after)
      streams.push(s)
      return s as unknown as EventSource
    },
    later(call, ms) {
      timers.set(next, { at: now + ms, call })
      return next++
    },
    cancel: timer => { timers.delete(timer) },
    random: () => 0.5
  }
  const feed = new Feed(source, {
    picture: states => { seen.push([...states].join('')) },
    live: on => { live.push(on) },
    failed: s => { failed.push(s) },
    chart: async () => true
  }, inside)
  const run = async (ms: number): Promise<void> => {
    const end = now + ms
    for (;;) {
      // Whoever waits for an answer has it before time goes on.
      for (let i = 0; i < 8; i++) await Promise.resolve()
      const due = [...timers].filter(([, t]) => t.at <= end).sort((a, b) => a[1].at - b[1].at)[0]
      if (!due) break
      timers.delete(due[0])
      now = Math.max(now, due[1].at)
      due[1].call()
    }
    now = end
  }
  return { feed, run, streams, asked, seen, failed, live }
}

describe('feed', () => {
  it('follows the stream after its snapshot', async () => {
    const w = world([ok(10)])
    w.feed.start()
    await w.run(10)
    expect(w.streams[0]!.after).toBe('10.1000')
    w.streams[0]!.say('frame', { from: 10, to: 11, lapseFrom: 900, lapse: 1250, live: true, changes: [[0, 1]] })
    expect(w.seen.at(-1)).toBe('100000')
    expect(w.asked).toEqual([''])
  })
  it('closes a hole with a snapshot while the stream stays open', async () => {
    const w = world([ok(10), ok(12)])
    w.feed.start()
    await w.run(10)
    w.streams[0]!.say('frame', { from: 12, to: 13, lapseFrom: 900, lapse: 1250, live: true, changes: [[5, 2]] })
    await w.run(2500)
    expect(w.asked).toEqual(['', ''])
    expect(w.seen.at(-1)).toBe('000002')
    expect(w.streams).toHaveLength(1)
    expect(w.streams[0]!.closed).toBe(false)
  })
  it('takes a new snapshot after a reset', async () => {
    const w = world([ok(10), ok(11), ok(30, '//A=')])
    w.feed.start()
    await w.run(10)
    w.streams[0]!.say('reset', { seq: 30, lapse: 900, live: true })
    await w.run(5000)
    expect(w.seen.at(-1)).toBe('333333')
    expect(w.streams).toHaveLength(1)
  })
  it('does with snapshots where the stream is refused, and tries it again', async () => {
    const w = world([ok(10), ok(11), no(304), no(304), ...Array.from({ length: 20 }, () => no(304))])
    w.feed.start()
    await w.run(10)
    w.streams[0]!.refuse()
    await w.run(8000)
    expect(w.asked.slice(0, 3)).toEqual(['', 'e10', 'e11'])
    expect(w.streams).toHaveLength(1)
    await w.run(40_000)
    expect(w.streams).toHaveLength(2)
  })
  it('leaves a stream that says nothing', async () => {
    const w = world([ok(10), ok(11), no(304), no(304)])
    w.feed.start()
    await w.run(10)
    await w.run(36_000)
    expect(w.streams[0]!.closed).toBe(true)
    await w.run(4000)
    expect(w.seen.at(-1)).toBe('000000')
    expect(w.asked.length).toBeGreaterThan(1)
  })
  it('begins anew after something it cannot read', async () => {
    const w = world([ok(10), ok(12)])
    w.feed.start()
    await w.run(10)
    w.streams[0]!.say('frame', '{"from":')
    expect(w.streams[0]!.closed).toBe(true)
    await w.run(2500)
    expect(w.streams[1]!.after).toBe('12.1000')
  })
  it('opens no stream for outsiders until they are let in', async () => {
    const w = world([ok(10), no(304), ok(15)], false)
    w.feed.start()
    await w.run(11_000)
    expect(w.streams).toHaveLength(0)
    expect(w.asked).toEqual(['', 'e10'])
    w.feed.enter()
    await w.run(10)
    expect(w.streams[0]!.after).toBe('15.1000')
  })
  it('says that it failed, waits as long as it was asked to, and says that it works again', async () => {
    const w = world([no(503, 7), ok(10)])
    w.feed.start()
    await w.run(6000)
    expect(w.failed).toEqual([503])
    await w.run(3000)
    expect(w.failed).toEqual([503, 200])
  })
  it('ends where there is no picture', async () => {
    const w = world([no(404)])
    w.feed.start()
    await w.run(60_000)
    expect(w.asked).toHaveLength(1)
  })
  it('tells once when the picture is an old one', async () => {
    const w = world([ok(10)])
    w.feed.start()
    await w.run(10)
    w.streams[0]!.say('beat', { live: false })
    w.streams[0]!.say('beat', { live: false })
    w.streams[0]!.say('beat', { live: true })
    expect(w.live).toEqual([true, false, true])
  })
  it('is quiet after its end', async () => {
    const w = world([ok(10), ok(11)])
    w.feed.start()
    await w.run(10)
    w.feed.stop()
    await w.run(120_000)
    expect(w.asked).toHaveLength(1)
    expect(w.streams[0]!.closed).toBe(true)
  })
})
