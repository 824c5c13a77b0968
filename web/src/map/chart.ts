// The chart as the map needs it: columns by ordinal in typed arrays, so that 50,000
// seats cost neither objects nor a walk through JSON while something moves.
import { Grid } from './grid'

export interface ChartSeat { id: string; label: string; x: number; y: number; tier: string; accessible?: boolean; companion?: boolean }
export interface Decoration {
  shape: string
  x: number
  y: number
  width?: number
  height?: number
  rotation?: number
  color?: string
  borderColor?: string
  text?: string
  points?: [number, number][]
}
/** ChartFile is the answer of GET /v1/charts/{hash}. */
export interface ChartFile {
  name: string
  tiers: { id: string; name: string; color: string }[]
  sections: { name: string; rows: { label: string; seats: ChartSeat[] }[] }[]
  decorations?: Decoration[]
}

export interface Box { left: number; top: number; right: number; bottom: number }
export interface ChartTier { id: string; name: string; color: string }
export interface Section { name: string; firstRow: number; rowCount: number; first: number; count: number; box: Box; middle: { x: number; y: number } }
export interface Row { section: number; label: string; first: number; count: number }

export const ACCESSIBLE = 1
export const COMPANION = 2

/** SEAT_SHARE is how much of the distance to its neighbour a seat takes. */
const SEAT_SHARE = 0.8

export class Chart {
  readonly count: number
  readonly tiers: ChartTier[]
  readonly sections: Section[] = []
  readonly rows: Row[] = []
  readonly decorations: Decoration[]
  readonly ids: string[]
  readonly labels: string[]
  readonly x: Float32Array
  readonly y: Float32Array
  readonly tierOf: Uint8Array
  readonly rowOf: Uint32Array
  readonly flags: Uint8Array
  /** bounds holds every seat and decoration; seatBounds the seats alone. */
  readonly bounds: Box
  readonly seatBounds: Box
  readonly grid: Grid
  /** pitch is the usual distance from a seat to its nearest neighbour, in chart units. */
  readonly pitch: number
  /** size is the side of a drawn seat, in chart units. */
  readonly size: number
  /** drawable is false for a file whose seats lie on each other: a list serves it better than a map. */
  readonly drawable: boolean

  constructor(file: ChartFile) {
    this.count = file.sections.reduce((n, s) => n + s.rows.reduce((m, r) => m + r.seats.length, 0), 0)
    this.tiers = file.tiers
    this.decorations = file.decorations ?? []
    this.ids = new Array<string>(this.count)
    this.labels = new Array<string>(this.count)
    this.x = new Float32Array(this.count)
    this.y = new Float32Array(this.count)
    this.tierOf = new Uint8Array(this.count)
    this.rowOf = new Uint32Array(this.count)
    this.flags = new Uint8Array(this.count)
    const tierNumber = new Map(file.tiers.map((t, i) => [t.id, i]))
    this.seatBounds = emptyBox()
    let ordinal = 0
    for (const s of file.sections) {
      const section: Section = { name: s.name, firstRow: this.rows.length, rowCount: s.rows.length, first: ordinal, count: 0, box: emptyBox(), middle: { x: 0, y: 0 } }
      for (const r of s.rows) {
        this.rows.push({ section: this.sections.length, label: r.label, first: ordinal, count: r.seats.length })
        for (const seat of r.seats) {
          this.ids[ordinal] = seat.id
          this.labels[ordinal] = seat.label
          this.x[ordinal] = seat.x
          this.y[ordinal] = seat.y
          this.tierOf[ordinal] = tierNumber.get(seat.tier) ?? 0
          this.rowOf[ordinal] = this.rows.length - 1
          this.flags[ordinal] = (seat.accessible ? ACCESSIBLE : 0) | (seat.companion ? COMPANION : 0)
          extend(section.box, seat.x, seat.y)
          section.middle.x += seat.x
          section.middle.y += seat.y
          ordinal++
        }
      }
      section.count = ordinal - section.first
      section.middle.x /= section.count || 1
      section.middle.y /= section.count || 1
      extend(this.seatBounds, section.box.left, section.box.top)
      extend(this.seatBounds, section.box.right, section.box.bottom)
      this.sections.push(section)
    }
    this.grid = new Grid(this.x, this.y, this.seatBounds)
    const { distance, piled } = neighbours(this.grid, this.x, this.y)
    this.pitch = distance
    this.size = distance * SEAT_SHARE
    this.drawable = distance > 0 && piled < 0.1
    this.bounds = { ...this.seatBounds }
    for (const d of this.decorations) {
      const b = decorationBox(d)
      extend(this.bounds, b.left, b.top)
      extend(this.bounds, b.right, b.bottom)
    }
  }

  sectionOf(ordinal: number): Section { return this.sections[this.rows[this.rowOf[ordinal]!]!.section]! }
  row(ordinal: number): Row { return this.rows[this.rowOf[ordinal]!]! }
  tier(ordinal: number): ChartTier { return this.tiers[this.tierOf[ordinal]!]! }
  /** ordinal finds a seat by its id; -1 where the chart has none. */
  ordinal(id: string): number { return this.ids.indexOf(id) }
}

const emptyBox = (): Box => ({ left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity })

function extend(box: Box, x: number, y: number): void {
  if (x < box.left) box.left = x
  if (x > box.right) box.right = x
  if (y < box.top) box.top = y
  if (y > box.bottom) box.bottom = y
}

/** neighbours looks at some seats: the median distance to the nearest other one, and the share that lie on another. */
function neighbours(grid: Grid, x: Float32Array, y: Float32Array): { distance: number; piled: number } {
  const found: number[] = []
  let piled = 0, asked = 0
  const step = Math.max(1, Math.floor(x.length / 400))
  for (let i = 0; i < x.length; i += step) {
    asked++
    const d = grid.nearestOther(i, x, y)
    if (d === 0) piled++
    else if (d < Infinity) found.push(d)
  }
  found.sort((a, b) => a - b)
  // A single seat has no neighbour; any size will do.
  return { distance: found[found.length >> 1] ?? (x.length === 1 ? 10 : 0), piled: piled / Math.max(1, asked) }
}

/** decorationBox is what a decoration can cover, whichever way it is turned. */
export function decorationBox(d: Decoration): Box {
  const box = emptyBox()
  if (d.points?.length) {
    // Points count from (x, y), which is where a polygon is turned around, too.
    let reach = 0
    for (const [px, py] of d.points) {
      if (d.rotation) reach = Math.max(reach, Math.hypot(px, py))
      extend(box, d.x + px, d.y + py)
    }
    if (!d.rotation) return box
    return { left: d.x - reach, top: d.y - reach, right: d.x + reach, bottom: d.y + reach }
  }
  const w = d.width ?? 0, h = d.height ?? 0
  if (d.rotation) {
    const reach = Math.hypot(w, h)
    return { left: d.x - reach, top: d.y - reach, right: d.x + reach, bottom: d.y + reach }
  }
  if (d.shape === 'rectangle') return { left: d.x, top: d.y, right: d.x + w, bottom: d.y + h }
  return { left: d.x - w / 2, top: d.y - h / 2, right: d.x + w / 2, bottom: d.y + h / 2 }
}
