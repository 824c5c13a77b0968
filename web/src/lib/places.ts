import { times } from './money'
import type { Hold, Money, Order, Schema, Tier } from './page'
import { t } from './texts'

// Line is one line of a hold or an order: a seat by its name, or a number of places.
export interface Line {
  key: string
  name: string
  tier: string
  price: Money
}

// seatName words where a seat is, as a ticket does; by its id where that is not known.
export function seatName(name: Schema['SeatName'] | undefined, id: string): string {
  return name ? t('seatName', { ...name }) : id
}

// byPlace orders places as rows are read: 9 comes before 10, seats before places
// without one.
export function byPlace(a: { seatId?: string; tierId: string }, b: { seatId?: string; tierId: string }): number {
  if (!a.seatId || !b.seatId) return Number(!a.seatId) - Number(!b.seatId) || a.tierId.localeCompare(b.tierId)
  return a.seatId.localeCompare(b.seatId, undefined, { numeric: true })
}

// names are the lines' names in one text.
export const names = (of: Line[]) => of.map(l => l.name).join(t('listSeparator'))

// lines are what a hold or an order has, each with what it costs. A tier that is not
// known is named by its id: an order shows without the event's entry.
export function lines(of: Pick<Hold | Order, 'seats' | 'items'>, tiers: Tier[] = []): Line[] {
  const name = (id: string) => tiers.find(x => x.tierId === id)?.name ?? id
  return [
    ...of.seats.toSorted(byPlace).map(s => ({ key: 's' + s.seatId, name: seatName(s.name, s.seatId), tier: name(s.tierId), price: s.price })),
    ...(of.items ?? []).toSorted(byPlace).map(i => ({ key: 't' + i.tierId, name: `${i.quantity} × ${name(i.tierId)}`, tier: '', price: times(i.price, i.quantity) }))
  ]
}

// count is how many places there are.
export function count(of: Pick<Hold | Order, 'seats' | 'items'>): number {
  return of.seats.length + (of.items ?? []).reduce((sum, i) => sum + i.quantity, 0)
}
