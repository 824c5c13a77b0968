// What a buyer does on the seats page, apart from how it looks: the picture, the
// choice, the hold. Seats stay in typed arrays; only what words depend on is state.
import { call, newKey, problemText, sure, toSignIn, type Answer } from '@lib/api'
import { clock } from '@lib/clock'
import { money } from '@lib/money'
import { pageData, type Event, type Hold, type Money, type Schema, type Tier } from '@lib/page'
import { t, tn } from '@lib/texts'
import { Chart, type ChartFile } from '../../map/chart'
import { browserSource, Feed } from '../../map/feed'
import { FREE, HELD, SOLD } from '../../map/picture'
import * as memory from './memory'

/** PLACES_MAX is how many places one hold may have. */
const PLACES_MAX = 6
/** STALE is how long the picture may be an old one before the page says so. */
const STALE = 4000
/** LOOKS_A_HOLD is how many looks at the event there are to one at a hold without seats. */
const LOOKS_A_HOLD = 6

export const data = pageData<{ eventId: string; queued: boolean; seated: boolean; tiers: Tier[]; chart?: string }>()
const api = '/v1/events/' + data.eventId

type Best = Schema['BestRequest']
export interface Conflict { seats: string[]; tiers: string[]; suggestion: number[] }
export type Sale = Event['sale']

export class Shop {
  tiers = $state.raw<Tier[]>(data.tiers)
  sale = $state<Sale>('open')
  limit = $state(PLACES_MAX)
  chart = $state.raw<Chart | null>(null)
  /** stale is whether the picture has been old for a while; a moment of it is nothing to talk about. */
  stale = $state(false)
  needQueue = $state(false)
  ready = $state(false)

  picked = $state.raw<number[]>([])
  counts = $state<Record<string, number>>({})
  /** wanted are the tiers that the map shows in full; none of them is all. */
  wanted = $state.raw<string[]>([])
  hold = $state.raw<Hold | null>(null)
  /** paying is a hold whose payment is under way. */
  paying = $state.raw<Hold | null>(null)
  busy = $state(false)
  conflict = $state.raw<Conflict | null>(null)
  trouble = $state('')
  /** note is a short word about the last choice; it is read out. */
  note = $state('')
  /** gone is a hold that is no longer one: bought, over, or given back elsewhere. */
  gone = $state.raw<Hold | null>(null)
  /** list is whether the seats are shown as a list. */
  list = $state(memory.choice(data.eventId)?.list ?? false)
  /** version counts the changes of the picture: what reads it is worded anew. */
  version = $state(0)
  /** colors are those of the chart's tiers as the map paints them. */
  colors = $state.raw<string[]>([])

  states: Uint8Array = new Uint8Array(0)
  /** onPicture is the map's: it paints what changed before any words do. */
  onPicture: ((changed: number[]) => void) | null = null
  private feed: Feed | null = null
  private key = newKey()
  private lookTimer = 0
  private staleTimer = 0
  private away = false
  private live = true
  private renewTimer = 0

  readonly seated = data.seated
  readonly standing = $derived(this.tiers.filter(x => x.kind === 'standing'))
  readonly max = $derived(Math.min(PLACES_MAX, this.limit))
  readonly items = $derived(Object.entries(this.counts).filter(([, n]) => n > 0).map(([tierId, quantity]) => ({ tierId, quantity })))
  readonly count = $derived(this.picked.length + this.items.reduce((sum, i) => sum + i.quantity, 0))
  /** closed is why nothing is sold; null while it is, or while that is not known. */
  readonly closed = $derived(this.sale === 'open' || this.sale === 'unavailable' ? null : this.sale)

  get sum(): Money | null {
    let sum: Money | null = null
    const add = (price: Money | undefined, n: number): void => {
      if (price) sum = { currency: price.currency, amountMinor: (sum?.amountMinor ?? 0) + price.amountMinor * n }
    }
    for (const i of this.picked) add(this.tierOf(i)?.price, 1)
    for (const i of this.items) add(this.tier(i.tierId)?.price, i.quantity)
    return sum
  }

  /** left counts the free seats by tier, section and row of the chart. */
  readonly left = $derived.by(() => {
    const c = this.chart, tiers = new Map<string, number>(), sections: number[] = [], rows: number[] = []
    if (!c || !this.version) return { tiers, sections, rows }
    for (let i = 0; i < c.count; i++) {
      if (this.states[i] !== FREE) continue
      const row = c.rowOf[i]!, section = c.rows[row]!.section, tier = c.tiers[c.tierOf[i]!]!.id
      rows[row] = (rows[row] ?? 0) + 1
      sections[section] = (sections[section] ?? 0) + 1
      tiers.set(tier, (tiers.get(tier) ?? 0) + 1)
    }
    return { tiers, sections, rows }
  })

  tier(id: string): Tier | undefined { return this.tiers.find(x => x.tierId === id) }
  tierOf(ordinal: number): Tier | undefined { return this.tier(this.chart!.tier(ordinal).id) }

  /** seatName is a seat as a ticket names it. */
  seatName(ordinal: number): string { return t('seatName', { ...this.where(ordinal) }) }

  private where(ordinal: number): Schema['SeatName'] {
    const c = this.chart!
    return { section: c.sectionOf(ordinal).name, row: c.row(ordinal).label, seat: c.labels[ordinal]! }
  }

  /** named is a hold whose seats have names: the answer to a purchase has none. */
  private named(h: Hold): Hold {
    const name = (id: string) => {
      const ordinal = this.chart?.ordinal(id) ?? -1
      return ordinal >= 0 ? this.where(ordinal) : undefined
    }
    return { ...h, seats: h.seats.map(s => ({ ...s, name: s.name ?? name(s.seatId) })) }
  }

  priceName(ordinal: number): string {
    const tier = this.tierOf(ordinal), name = tier?.name ?? this.chart!.tier(ordinal).name
    return tier?.price ? `${name} · ${money(tier.price)}` : name
  }

  stateName(ordinal: number): string {
    if (this.picked.includes(ordinal)) return t('state.chosen')
    const state = this.states[ordinal]
    return state === FREE ? t('free') : state === HELD ? t('state.held') : state === SOLD ? t('state.sold') : t('state.blocked')
  }

  // Beginning.

  async start(): Promise<() => void> {
    const mine = await this.myHolds()
    if (mine === 401) return () => {}
    if (data.queued && !memory.admission(data.eventId)) await this.admit()
    this.restore()
    void this.look()
    if (this.seated) {
      if (data.chart) void this.loadChart(data.chart)
      this.feed = new Feed(browserSource(data.eventId), {
        picture: (states, changed) => this.pictured(states, changed),
        live: on => this.fresh({ live: on }),
        failed: status => this.fresh({ away: status !== 200 }),
        chart: hash => this.loadChart(hash)
      }, !data.queued || !this.needQueue)
      this.feed.start()
    }
    this.planRenewal()
    this.ready = true
    return () => {
      this.feed?.stop()
      clearTimeout(this.lookTimer)
      clearTimeout(this.renewTimer)
      clearTimeout(this.staleTimer)
    }
  }

  private fresh(now: { away?: boolean; live?: boolean }): void {
    this.away = now.away ?? this.away
    this.live = now.live ?? this.live
    if (this.live && !this.away) {
      clearTimeout(this.staleTimer)
      this.staleTimer = 0
      this.stale = false
    } else {
      this.staleTimer ||= window.setTimeout(() => { this.stale = true }, STALE)
    }
  }

  private charts = new Map<string, Promise<boolean>>()

  private loadChart(hash: string): Promise<boolean> {
    let loading = this.charts.get(hash)
    if (!loading) {
      loading = call<ChartFile>('GET', '/v1/charts/' + hash).then(r => {
        if (!r.body) {
          this.charts.delete(hash)
          return false
        }
        this.chart = new Chart(r.body)
        return true
      })
      this.charts.set(hash, loading)
    }
    return loading
  }

  private pictured(states: Uint8Array, changed: number[]): void {
    this.states = states
    this.onPicture?.(changed)
    this.version++
    // Staff may release a hold, its holder may give it back in another window.
    if (changed.some(i => states[i] !== HELD && this.holds(i))) void this.myHolds()
    const lost = this.hold || this.busy ? [] : this.picked.filter(i => states[i] !== FREE)
    if (!lost.length) return
    // Our own request may have taken it, and its answer been lost.
    if (memory.asked(data.eventId)) return void this.myHolds()
    // Somebody else has it: better said now than after the next click.
    this.picked = this.picked.filter(i => !lost.includes(i))
    this.key = newKey()
    this.note = t('lostSeat', { seat: lost.map(i => this.seatName(i)).join(t('listSeparator')) })
  }

  private holds(ordinal: number): boolean {
    return this.hold?.seats.some(s => s.seatId === this.chart?.ids[ordinal]) ?? false
  }

  /** wake looks again after the page was away: asleep, hidden, or in the browser's cache. */
  async wake(): Promise<void> {
    if (!this.ready) return
    await this.myHolds()
    void this.look()
    this.planRenewal()
    this.feed?.refresh()
  }

  private looks = 0

  /** look reads what the event's entry says: whether it sells, and what is left of standing tiers. */
  async look(): Promise<void> {
    clearTimeout(this.lookTimer)
    const r = await call<Event>('GET', api)
    if (r.body) {
      this.sale = r.body.sale
      this.tiers = r.body.tiers
      this.limit = r.body.purchaseLimit
    }
    this.lookAtHold()
    this.lookTimer = window.setTimeout(() => void this.look(), (this.standing.length ? 5000 : 12_000) * (0.85 + 0.3 * Math.random()))
  }

  private lookAtHold(): void {
    const h = this.hold
    if (!h) return
    // A hold without seats has no picture that shows it gone.
    const due = h.seats.length === 0 && ++this.looks % LOOKS_A_HOLD === 0
    if (due || Date.parse(h.expiresAt) <= clock.now()) void this.myHolds()
  }

  // moves counts what was held and given back here: an answer that was on its way
  // meanwhile may tell of before.
  private moves = 0

  private async myHolds(): Promise<number> {
    const moves = this.moves
    const r = await call<{ holds: Hold[] }>('GET', api + '/holds')
    if (r.status === 401) toSignIn()
    if (r.body && !this.busy && this.moves === moves) {
      this.paying = r.body.holds.find(h => h.status === 'payment_pending') ?? null
      const held = r.body.holds.find(h => h.status === 'held')
      if (held) this.held(held)
      else if (this.hold) await this.over()
    }
    return r.status
  }

  // Admission.

  /** admit asks for a fresh admission; the visit itself goes on. */
  private async admit(): Promise<string> {
    if (!data.queued) return ''
    const r = await call<Schema['Admission']>('POST', api + '/queue/admit')
    if (r.body) {
      memory.keepAdmission(data.eventId, r.body)
      this.needQueue = false
      this.feed?.enter()
      this.planRenewal()
      return r.body.admissionToken
    }
    // No answer is no refusal.
    if (r.status !== 0 && r.status < 500 && r.status !== 429) {
      memory.forgetAdmission(data.eventId)
      this.needQueue = true
    }
    return ''
  }

  private planRenewal(): void {
    clearTimeout(this.renewTimer)
    const a = memory.admission(data.eventId)
    if (!data.queued || !a?.expiresAt) return
    // Well before the end: a page in the background is late with its timers.
    const left = Date.parse(a.expiresAt) - clock.now()
    this.renewTimer = window.setTimeout(() => void this.admit(), Math.max(5000, left * 0.6))
  }

  // Choosing.

  private chosen(note = ''): void {
    this.key = newKey()
    this.conflict = null
    this.trouble = ''
    this.gone = null
    this.note = note
  }

  toggle(ordinal: number): void {
    if (this.hold || this.busy) return
    if (this.picked.includes(ordinal)) {
      this.picked = this.picked.filter(i => i !== ordinal)
      return this.chosen(t('unpicked', { seat: this.seatName(ordinal) }))
    }
    if (this.states[ordinal] !== FREE) {
      this.note = t('notFree', { seat: this.seatName(ordinal) })
      return
    }
    if (this.count >= this.max) {
      this.note = tn('enough', this.max)
      return
    }
    this.picked = [...this.picked, ordinal]
    this.chosen(t('picked', { seat: this.seatName(ordinal) }))
  }

  setCount(tierId: string, n: number): void {
    if (this.busy) return
    const others = this.count - (this.counts[tierId] ?? 0)
    this.counts[tierId] = Math.max(0, Math.min(n, this.max - others))
    this.chosen(n > this.max - others ? tn('enough', this.max) : '')
  }

  clear(): void {
    this.picked = []
    this.counts = {}
    this.chosen()
  }

  want(tierId: string): void {
    this.wanted = this.wanted.includes(tierId) ? this.wanted.filter(x => x !== tierId) : [...this.wanted, tierId]
  }

  // Holding.

  /** place holds what is chosen. */
  async place(): Promise<void> {
    if (!this.count) return
    const seatIds = this.picked.map(i => this.chart!.ids[i]!).sort()
    await this.send({ ...(seatIds.length && { seatIds }), ...(this.items.length && { items: this.items }) }, this.key)
  }

  private bestKey = { wish: '', key: '' }

  /** placeBest lets the server choose. The same wish again is the same request until it was answered. */
  async placeBest(best: Best): Promise<void> {
    const wish = JSON.stringify(best)
    if (this.bestKey.wish !== wish) this.bestKey = { wish, key: newKey() }
    await this.send({ best }, this.bestKey.key)
  }

  /** takeSuggestion holds the seats that a refusal offered instead. */
  async takeSuggestion(): Promise<void> {
    if (!this.conflict) return
    this.picked = this.conflict.suggestion
    this.chosen()
    await this.place()
  }

  private async send(asked: memory.Asked, idempotencyKey: string): Promise<void> {
    if (this.busy || this.hold) return
    this.busy = true
    this.conflict = null
    this.trouble = ''
    this.note = ''
    this.gone = null
    // The key outlives the page: after a reload the same choice is the same request.
    memory.keepAsked(data.eventId, { ...asked, idempotencyKey })
    const post = (token: string): Promise<Answer<Hold>> => sure<Hold>('POST', api + '/holds', { ...asked, idempotencyKey, ...(token && { admissionToken: token }) })
    let r = await post(memory.admission(data.eventId)?.admissionToken ?? '')
    if (/^(admission_|session_ended)/.test(r.problem?.code ?? '')) {
      const token = await this.admit()
      if (token) r = await post(token)
    }
    this.busy = false
    await this.answered(r, asked)
  }

  private async answered(r: Answer<Hold>, asked: memory.Asked): Promise<void> {
    if (r.body) return this.held(r.body)
    if (r.problem?.code === 'unauthenticated') {
      const kept = memory.asked(data.eventId)
      if (kept) memory.keepAsked(data.eventId, { ...kept, refused: true })
      return toSignIn()
    }
    const open = r.status === 0 || r.status === 429 || r.status >= 500
    if (open) {
      // Nobody knows whether it was done: the key stays, and a hold that came about is found.
      this.trouble = problemText(r)
      await this.myHolds()
      return
    }
    memory.forgetAsked(data.eventId)
    this.key = newKey()
    this.bestKey = { wish: '', key: '' }
    const p = r.problem
    if (p?.code === 'seats_unavailable' || p?.code === 'seat_unknown') this.refused(p, asked)
    else this.trouble = problemText(r)
    this.feed?.refresh()
    void this.look()
  }

  /** refused words what was taken, takes it out of the choice, and keeps what is offered instead. */
  private refused(p: Schema['Problem'], asked: memory.Asked): void {
    if (asked.best) {
      this.trouble = t('noBest')
      return
    }
    const ordinals = (ids: string[] | undefined): number[] => (ids ?? []).map(id => this.chart?.ordinal(id) ?? -1).filter(i => i >= 0)
    const taken = ordinals(p.seats), tiers = p.tiers ?? []
    this.conflict = {
      seats: taken.map(i => this.seatName(i)),
      tiers: tiers.map(id => this.tier(id)?.name ?? id),
      suggestion: ordinals(p.suggestion)
    }
    this.picked = this.picked.filter(i => !taken.includes(i))
    for (const id of tiers) this.counts[id] = 0
  }

  private held(h: Hold): void {
    clock.sync(h.serverTime)
    memory.forgetAsked(data.eventId)
    this.moves++
    this.hold = this.named(h)
    this.picked = []
    this.counts = {}
    this.key = newKey()
    this.bestKey = { wish: '', key: '' }
    this.trouble = this.note = ''
    this.conflict = null
    this.gone = null
  }

  /** over asks what became of the hold: its time is over by the clock, or it is no longer among those that are held. */
  async over(): Promise<void> {
    const h = this.hold
    if (!h) return
    const r = await call<Hold>('GET', '/v1/holds/' + h.holdId)
    if (this.hold !== h) return
    // No answer ends nothing: the next look asks again.
    if (!r.body) return
    if (r.body.status === 'held' && Date.parse(r.body.expiresAt) > clock.now()) {
      this.hold = r.body
      return
    }
    if (r.body.status === 'payment_pending') this.paying = r.body
    else this.gone = r.body
    this.free()
  }

  async release(): Promise<void> {
    const h = this.hold
    if (!h || this.busy) return
    this.busy = true
    const r = await sure<Hold>('DELETE', '/v1/holds/' + h.holdId)
    this.busy = false
    this.trouble = r.body ? '' : problemText(r)
    if (r.body) this.free()
    else await this.myHolds()
  }

  private free(): void {
    this.moves++
    this.hold = null
    this.feed?.refresh()
    void this.look()
  }

  /** restore brings a choice back that was sent and never answered, with its key. */
  private restore(): void {
    if (this.hold) return
    const asked = memory.asked(data.eventId)
    if (!asked) return this.rechoose(memory.choice(data.eventId))
    if (asked.best) {
      const { idempotencyKey, best } = asked
      this.bestKey = { wish: JSON.stringify(best), key: idempotencyKey }
    }
    this.rechoose(asked)
    this.key = asked.idempotencyKey
    if (!asked.refused) this.trouble = t('asBefore')
  }

  private rechoose(was: memory.Asked | null): void {
    for (const i of was?.items ?? []) if (this.tier(i.tierId)) this.counts[i.tierId] = i.quantity
    this.restored = was?.seatIds ?? []
  }

  private restored: string[] = []

  /** remember keeps the choice for this page in the other language, and after a reload. */
  remember(): void {
    const { picked, items, list, chart } = this
    // Until there is a chart, what was kept is still to be found in it.
    if (!this.ready || this.restored.length) return
    memory.keepChoice(data.eventId, { seatIds: picked.map(i => chart!.ids[i]!), items, list })
  }

  /** charted is called when there is a chart to find restored seats in. */
  charted(): void {
    if (!this.restored.length || !this.chart) return
    this.picked = this.restored.map(id => this.chart!.ordinal(id)).filter(i => i >= 0)
    this.restored = []
  }
}
