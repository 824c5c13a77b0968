// The picture of the seats and the rules by which snapshots and frames change it
// (docs/seat-map.md). Pure: what it needs from the network it says by its answers.
export const FREE = 0
export const HELD = 1
export const SOLD = 2
export const BLOCKED = 3

export interface Snapshot { chart: string; count: number; seq: number; lapse: number; live: boolean; states: string }
export interface Frame { from: number; to: number; lapseFrom: number; lapse: number; live: boolean; changes: [number, number][] }
export interface Reset { seq: number; lapse: number; live: boolean }

/** KEPT_MAX is how many frames wait for a snapshot. */
const KEPT_MAX = 100

/** unpack reads two bits a seat, the first seat in the highest bits of the first byte. */
export function unpack(states: string, count: number): Uint8Array {
  const text = atob(states)
  if (text.length !== (count + 3) >> 2) throw new Error('a snapshot of another length')
  const out = new Uint8Array(count)
  for (let i = 0; i < count; i++) out[i] = text.charCodeAt(i >> 2) >> (6 - 2 * (i & 3)) & 3
  return out
}

const older = (a: { seq: number; lapse: number }, b: { seq: number; lapse: number }): boolean => a.seq < b.seq || (a.seq === b.seq && a.lapse < b.lapse)

/** Outcome of something that came: what was done, or what is needed now. */
export type Outcome = 'done' | 'old' | 'snapshot' | 'restart'

export class Picture {
  states: Uint8Array = new Uint8Array(0)
  seq = -1
  lapse = -1
  /** kept are the frames that wait for a snapshot; null while nothing is missing. */
  private kept: Frame[] | null = null
  /** asked is the position that a reset named: an older snapshot is of no use. */
  private asked: { seq: number; lapse: number } | null = null

  /** changed is told the seats whose state is another now. */
  constructor(private readonly changed: (ordinals: number[]) => void) {}

  /** after is the position as a stream takes it. */
  get after(): string { return this.seq + '.' + this.lapse }
  get waiting(): boolean { return this.kept !== null }

  /** take puts a snapshot in place and then the frames that waited for it. */
  take(s: Snapshot): Outcome {
    if (this.asked && older(s, this.asked)) return 'snapshot'
    if (!this.kept && older(s, this)) return 'old'
    const before = this.states
    this.states = unpack(s.states, s.count)
    this.seq = s.seq
    this.lapse = s.lapse
    this.asked = null
    const frames = this.kept ?? []
    this.kept = null
    const touched: number[] = []
    for (let i = 0; i < this.states.length; i++) if (this.states[i] !== before[i]) touched.push(i)
    this.changed(touched)
    // The first that leaves a hole keeps itself and those after it.
    for (const f of frames) if (this.frame(f) === 'restart') return 'restart'
    return this.kept ? 'snapshot' : 'done'
  }

  frame(f: Frame): Outcome {
    if (this.kept) {
      this.kept.push(f)
      return this.kept.length > KEPT_MAX ? 'restart' : 'done'
    }
    if (f.to < this.seq || (f.to === this.seq && f.lapse <= this.lapse)) return 'old'
    if (f.from > this.seq || f.lapseFrom > this.lapse) {
      this.kept = [f]
      return 'snapshot'
    }
    const touched: number[] = []
    for (const [ordinal, state] of f.changes) {
      if (ordinal >= this.states.length || state > 3) return 'restart'
      if (this.states[ordinal] !== state) {
        this.states[ordinal] = state
        touched.push(ordinal)
      }
    }
    this.seq = f.to
    this.lapse = f.lapse
    this.changed(touched)
    return 'done'
  }

  reset(r: Reset): Outcome {
    this.kept = []
    this.asked = { seq: r.seq, lapse: r.lapse }
    return 'snapshot'
  }

  /** restart forgets what waits: the next snapshot begins anew. */
  restart(): void {
    this.kept = null
    this.asked = null
    this.seq = -1
    this.lapse = -1
  }
}
