import { clock } from '@lib/clock'
import type { Live } from './desk.svelte'

// kept is how many looks the plots show: a quarter of an hour of two seconds each.
const kept = 450

const names = ['waiting', 'shoppers', 'sold', 'held', 'admitted', 'granted', 'conflicts', 'unknown', 'overdue'] as const

type Name = (typeof names)[number]

// least is the shortest time that a plot shows, in seconds: over less, its axis would
// tell fractions of a second apart by one and the same time of day.
const least = 60

// span is what a plot's time axis shows of looks at these times, in seconds since 1970;
// before the first look there are none.
export function span(at: ArrayLike<number>): [number, number] {
  const end = at[at.length - 1] ?? clock.now() / 1000
  return [Math.min(at[0] ?? end, end - least), end]
}

// Past is what was seen of a sale, for plots: figures side by side over time. Rates
// are per second, from the difference of two looks.
export class Past {
  at: number[] = []
  readonly of = Object.fromEntries(names.map(n => [n, []])) as unknown as Record<Name, (number | null)[]>
  private last: Live | null = null

  add(now: Live) {
    const at = Date.parse(now.serverTime) / 1000
    // The same look again, or one from before the server's clock was set back.
    if (at <= (this.at.at(-1) ?? 0)) return
    const was = this.last
    this.last = now
    const seconds = was ? at - Date.parse(was.serverTime) / 1000 : 0
    // Another process or a new round counts from another start.
    const rate = (from: number | undefined, to: number | undefined) => (seconds && from !== undefined && to !== undefined ? Math.max(0, to - from) / seconds : null)
    const sum = (what: 'sold' | 'held') => now.tiers.reduce((n, tier) => n + tier[what], 0)
    const same = was?.decisions.since === now.decisions.since
    const figures: Record<Name, number | null> = {
      waiting: now.queue?.waiting ?? null,
      shoppers: now.queue?.active ?? null,
      sold: sum('sold'),
      held: sum('held'),
      admitted: was?.queue?.round === now.queue?.round ? rate(was?.queue?.serving, now.queue?.serving) : null,
      granted: same ? rate(was?.decisions.granted, now.decisions.granted) : null,
      conflicts: same ? rate(was?.decisions.conflicts, now.decisions.conflicts) : null,
      unknown: now.payments.unknown,
      overdue: now.holds.overdue
    }
    this.at = [...this.at, at].slice(-kept)
    for (const n of names) this.of[n] = [...this.of[n], figures[n]].slice(-kept)
  }
}
