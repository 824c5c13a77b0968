// The live picture: a snapshot, then the stream; where streams do not get through, a
// snapshot every few seconds. It goes on by itself until it is stopped.
import { Picture, type Frame, type Outcome, type Reset, type Snapshot } from './picture'

/** SILENCE is how long a stream may say nothing: it beats every 15 s. */
const SILENCE = 35_000
/** POLL is the time between snapshots without a stream; OUTSIDE where the picture is the slow one for outsiders. */
const POLL = 4_000
const OUTSIDE = 10_000
/** AGAIN is how long snapshots do before the stream is tried again. */
const AGAIN = 30_000
/** BACK_MAX bounds the wait for a snapshot that does not come. */
const BACK_MAX = 20_000

/** Reply is an answer to a request for a snapshot: status 0 is no answer, 304 nothing new. */
export interface Reply { status: number; snapshot: Snapshot | null; etag: string; wait: number }

/** Source is where pictures come from; the tests have another one than browsers. */
export interface Source {
  snapshot(etag: string): Promise<Reply>
  stream(after: string): EventSource
  later(call: () => void, ms: number): number
  cancel(timer: number): void
  random(): number
}

export interface FeedEvents {
  /** picture comes with every change: all states, and which are other ones than before. */
  picture(states: Uint8Array, changed: number[]): void
  /** live is false while the event's home does not answer: the picture is an old one. */
  live(on: boolean): void
  /** failed is told the status of a snapshot that was refused or did not come; 200 once it works again. */
  failed(status: number): void
  /** chart is asked before a snapshot of another chart than the last counts; false ends the feed. */
  chart(hash: string): Promise<boolean>
}

export class Feed {
  private readonly picture: Picture
  private stream: EventSource | null = null
  private timer = 0
  private silence = 0
  private etag = ''
  private chart = ''
  private failures = 0
  private stopped = false
  private heard = false
  private streamless = false
  /** turn tells an answer that is waited for from one that came too late. */
  private turn = 0
  private wasLive: boolean | null = null

  /** inside is whether the live picture is for us: outsiders get snapshots alone. */
  constructor(private readonly source: Source, private readonly events: FeedEvents, private inside: boolean) {
    this.picture = new Picture(changed => events.picture(this.picture.states, changed))
  }

  start(): void { this.take(0) }

  /** enter begins the stream once admission was got. */
  enter(): void {
    if (this.inside) return
    this.inside = true
    this.refresh()
  }

  /** refresh takes a snapshot now: after a refusal, or when the page wakes. */
  refresh(): void {
    if (!this.stopped) this.take(0)
  }

  stop(): void {
    this.stopped = true
    this.turn++
    this.close()
    this.source.cancel(this.timer)
  }

  private close(): void {
    this.stream?.close()
    this.stream = null
    this.source.cancel(this.silence)
  }

  private take(ms: number): void {
    const turn = ++this.turn
    this.source.cancel(this.timer)
    this.timer = this.source.later(() => void this.ask(turn), ms)
  }

  private async ask(turn: number): Promise<void> {
    // What waits for a snapshot needs all of it, whether it is new or not.
    const reply = await this.source.snapshot(this.picture.waiting ? '' : this.etag)
    if (turn !== this.turn) return
    if (reply.status === 304) return this.settled()
    if (reply.status !== 200 || !reply.snapshot) return this.missed(reply)
    const s = reply.snapshot
    if (s.chart !== this.chart) {
      const known = await this.events.chart(s.chart)
      if (turn !== this.turn) return
      if (!known) return this.missed({ ...reply, status: 0 })
      this.chart = s.chart
    }
    this.etag = reply.etag
    this.failures = 0
    this.events.failed(200)
    this.live(s.live)
    this.after(this.guard(() => this.picture.take(s)))
  }

  private missed(reply: Reply): void {
    this.events.failed(reply.status)
    // A picture that does not exist will not come.
    if (reply.status === 404) return this.stop()
    const wait = Math.max(reply.wait * 1000, Math.min(BACK_MAX, 1000 * 2 ** this.failures++))
    this.take(wait * (0.75 + this.source.random() / 2))
  }

  private after(outcome: Outcome): void {
    if (outcome === 'restart') return this.restart()
    if (outcome === 'snapshot') return this.take(300 + 900 * this.source.random())
    this.settled()
  }

  /** settled goes on from a picture that is in place. */
  private settled(): void {
    if (!this.inside || this.streamless) return this.take((this.inside ? POLL : OUTSIDE) * (0.85 + 0.3 * this.source.random()))
    if (!this.stream) this.follow()
  }

  private follow(): void {
    const stream = this.stream = this.source.stream(this.picture.after)
    const on = <T>(name: string, act: (message: T) => void): void => {
      stream.addEventListener(name, e => {
        if (stream !== this.stream) return
        this.heard = true
        this.wait()
        let message: T & { live: boolean }
        try {
          message = JSON.parse((e as MessageEvent<string>).data) as T & { live: boolean }
        } catch {
          return this.restart()
        }
        this.live(message.live)
        act(message)
      })
    }
    on<Frame>('frame', f => this.told(this.guard(() => this.picture.frame(f))))
    on<Reset>('reset', r => this.told(this.picture.reset(r)))
    on('beat', () => {})
    stream.addEventListener('error', () => {
      // A browser comes back to a stream that broke, but not to one that was refused.
      if (stream === this.stream && stream.readyState === 2) this.without()
    })
    this.heard = false
    this.wait()
  }

  /** guard makes what cannot be read a reason to begin anew. */
  private guard(act: () => Outcome): Outcome {
    try {
      return act()
    } catch {
      return 'restart'
    }
  }

  private told(outcome: Outcome): void {
    if (outcome === 'restart') return this.restart()
    // Everybody was told at the same moment.
    if (outcome === 'snapshot') this.take(200 + 1800 * this.source.random())
  }

  private wait(): void {
    this.source.cancel(this.silence)
    this.silence = this.source.later(() => {
      // A stream that never said anything is held up on the way.
      if (this.heard) this.restart()
      else this.without()
    }, SILENCE)
  }

  /** without goes on by snapshots and tries the stream again later. */
  private without(): void {
    this.close()
    this.streamless = true
    this.source.later(() => { this.streamless = false }, AGAIN)
    this.take(POLL * this.source.random())
  }

  private restart(): void {
    this.close()
    this.picture.restart()
    this.etag = ''
    this.take(200 + 1800 * this.source.random())
  }

  private live(on: boolean): void {
    if (on === this.wasLive) return
    this.wasLive = on
    this.events.live(on)
  }
}

/** browserSource asks the server of the page; the admission's cookie goes with it by itself. */
export function browserSource(event: string): Source {
  const path = `/v1/events/${event}/seats`
  return {
    async snapshot(etag) {
      try {
        const r = await fetch(path, { headers: etag ? { 'If-None-Match': etag } : {}, cache: 'no-store' })
        const snapshot = r.status === 200 ? (await r.json()) as Snapshot : null
        return { status: r.status, snapshot, etag: r.headers.get('ETag') ?? '', wait: Number(r.headers.get('Retry-After')) || 0 }
      } catch {
        return { status: 0, snapshot: null, etag: '', wait: 0 }
      }
    },
    stream: after => new EventSource(`${path}/stream?after=${after}`),
    later: (call, ms) => window.setTimeout(call, ms),
    cancel: timer => window.clearTimeout(timer),
    random: Math.random
  }
}
