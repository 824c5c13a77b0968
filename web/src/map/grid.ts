// A grid over the seats: which are in a rectangle, which one is under a finger, and
// which one is next in a direction.
export interface Rect { left: number; top: number; right: number; bottom: number }

/** PER_CELL is about how many seats share a cell. */
const PER_CELL = 6

export class Grid {
  private readonly left: number
  private readonly top: number
  private readonly cell: number
  private readonly columns: number
  private readonly lines: number
  /** start[c] to start[c + 1] are the places in items of the seats of cell c. */
  private readonly start: Uint32Array
  private readonly items: Uint32Array

  constructor(private readonly x: Float32Array, private readonly y: Float32Array, bounds: Rect) {
    const n = x.length
    const width = Math.max(n ? bounds.right - bounds.left : 0, 1e-6), height = Math.max(n ? bounds.bottom - bounds.top : 0, 1e-6)
    this.left = n ? bounds.left : 0
    this.top = n ? bounds.top : 0
    // Neither a long line of seats nor an empty plain may ask for more cells than there are seats.
    this.cell = Math.max(Math.sqrt(width * height * PER_CELL / Math.max(n, 1)), Math.max(width, height) / Math.max(n, 1))
    this.columns = Math.floor(width / this.cell) + 1
    this.lines = Math.floor(height / this.cell) + 1
    this.start = new Uint32Array(this.columns * this.lines + 1)
    const of = new Uint32Array(n)
    for (let i = 0; i < n; i++) {
      const c = this.line(y[i]!) * this.columns + this.column(x[i]!)
      of[i] = c
      this.start[c + 1]!++
    }
    for (let c = 0; c < this.start.length - 1; c++) this.start[c + 1]! += this.start[c]!
    this.items = new Uint32Array(n)
    const next = this.start.slice()
    for (let i = 0; i < n; i++) this.items[next[of[i]!]!++] = i
  }

  private column(x: number): number { return Math.min(this.columns - 1, Math.max(0, Math.floor((x - this.left) / this.cell))) }
  private line(y: number): number { return Math.min(this.lines - 1, Math.max(0, Math.floor((y - this.top) / this.cell))) }

  /** each calls visit with every seat whose middle is in the rectangle. */
  each(r: Rect, visit: (ordinal: number) => void): void {
    const c0 = this.column(r.left), c1 = this.column(r.right)
    for (let l = this.line(r.top), l1 = this.line(r.bottom); l <= l1; l++) {
      for (let k = this.start[l * this.columns + c0]!, end = this.start[l * this.columns + c1 + 1]!; k < end; k++) {
        const i = this.items[k]!, x = this.x[i]!, y = this.y[i]!
        if (x >= r.left && x <= r.right && y >= r.top && y <= r.bottom) visit(i)
      }
    }
  }

  /** within lists the seats of a rectangle in order. */
  within(r: Rect): Uint32Array {
    const found: number[] = []
    this.each(r, i => { found.push(i) })
    return Uint32Array.from(found).sort()
  }

  /** nearest is the seat nearest to a point and at most reach away, or -1. */
  nearest(x: number, y: number, reach: number): number {
    let best = -1, distance = reach * reach
    this.each({ left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }, i => {
      const d = (this.x[i]! - x) ** 2 + (this.y[i]! - y) ** 2
      if (d <= distance) {
        distance = d
        best = i
      }
    })
    return best
  }

  /** nearestOther is how far the nearest other seat is: Infinity where there is none. */
  nearestOther(from: number, xs: Float32Array, ys: Float32Array): number {
    const x = xs[from]!, y = ys[from]!
    const all = Math.max(this.columns, this.lines) * this.cell
    for (let reach = this.cell; ; reach *= 2) {
      let distance = Infinity
      this.each({ left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }, i => {
        if (i !== from) distance = Math.min(distance, Math.hypot(xs[i]! - x, ys[i]! - y))
      })
      // Something just outside the square may be nearer than what is in its corner.
      if (distance <= reach || reach > all) return distance
    }
  }

  /** next is the seat that somebody means who presses an arrow key at a seat: near, and not far off the line. */
  next(from: number, dx: number, dy: number, pitch: number): number {
    const x = this.x[from]!, y = this.y[from]!
    const all = Math.max(this.columns, this.lines) * this.cell
    for (let reach = 4 * pitch; ; reach *= 3) {
      let best = -1, cost = Infinity
      this.each({ left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }, i => {
        const along = (this.x[i]! - x) * dx + (this.y[i]! - y) * dy
        const aside = Math.abs((this.x[i]! - x) * dy - (this.y[i]! - y) * dx)
        if (i === from || along < pitch / 4 || aside > 1.5 * along) return
        const c = along + 2 * aside
        if (c < cost) {
          cost = c
          best = i
        }
      })
      if (best >= 0 || reach > all) return best
    }
  }
}
