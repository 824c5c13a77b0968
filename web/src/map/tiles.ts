// Tiles: the chart drawn at one scale, cut into squares that are kept. Moving the map
// copies squares; a changed seat is mended in the squares that show it; a new square is
// drawn a few milliseconds at a time.
import { decorationBox, type Chart, type Decoration } from './chart'
import type { Rect } from './grid'
import { addBox, DENSE_BELOW, dots, Marks, type Dot, type Look } from './marks'
import { FREE } from './picture'
import { css, on, parse, type RGB, type Theme } from './theme'

/** SIDE of a tile in device pixels. */
export const SIDE = 512
/** STEP is how many seats are drawn between two looks at the clock. */
const STEP = 120
/** LATE_MAX is how many changes a tile collects out of sight before it is thrown away. */
const LATE_MAX = 400

/** Scene is what is drawn, whatever the scale. */
export interface Scene {
  chart: Chart
  theme: Theme
  colors: RGB[]
  states: Uint8Array
  /** wanted says by tier whether it is among those that were asked for; null is all. */
  wanted: Uint8Array | null
  ratio: number
}

export class Tile {
  /** shown is what can be copied; null until the tile was drawn for the first time. */
  shown: HTMLCanvasElement | null = null
  /** under has the decorations, where there are any. */
  under: HTMLCanvasElement | null = null
  stale = true
  used = 0
  /** late are seats that changed since the tile was drawn and were not mended yet. */
  late: number[] = []
  job: Job | null = null
  constructor(readonly column: number, readonly line: number) {}
}

interface Job { canvas: HTMLCanvasElement; ctx: CanvasRenderingContext2D; seats: Uint32Array; next: number; pixels: ImageData | null }

const name = (column: number, line: number): number => (column + 0x8000) * 0x10000 + line + 0x8000

export class Layer {
  readonly tiles = new Map<number, Tile>()
  /** dense layers draw boxes, the others marks. */
  readonly dense: boolean
  readonly marks: Marks
  private readonly dot: (l: Look) => Dot
  /** reach is how far from its middle a seat can colour pixels. */
  private readonly reach: number
  private readonly numbered: boolean

  /** scale is device pixels to a chart unit. */
  constructor(readonly scale: number, private readonly scene: Scene) {
    const side = scene.chart.size * scale
    this.dense = side < DENSE_BELOW
    this.marks = new Marks(side, scene.theme, scene.colors)
    this.dot = dots(scene.theme, scene.colors)
    this.reach = this.dense ? side * 0.54 + 1 : this.marks.side / 2 + 1
    this.numbered = side / scene.ratio >= 17
  }

  at(column: number, line: number): Tile | undefined { return this.tiles.get(name(column, line)) }

  /** need returns the tile of a place and makes it when it is not there. */
  need(column: number, line: number): Tile {
    let t = this.at(column, line)
    if (!t) this.tiles.set(name(column, line), t = new Tile(column, line))
    return t
  }

  drop(t: Tile): void { this.tiles.delete(name(t.column, t.line)) }

  /** spoil makes every tile be drawn again; until then they show what they have. */
  spoil(): void {
    for (const t of this.tiles.values()) {
      t.stale = true
      t.job = null
      t.late = []
    }
  }

  /** touch notes a changed seat in the tiles that show it, and returns them through visit. */
  touch(ordinal: number, visit: (t: Tile) => void): void {
    const x = this.scene.chart.x[ordinal]! * this.scale, y = this.scene.chart.y[ordinal]! * this.scale
    for (let c = Math.floor((x - this.reach) / SIDE), c1 = Math.floor((x + this.reach) / SIDE); c <= c1; c++) {
      for (let l = Math.floor((y - this.reach) / SIDE), l1 = Math.floor((y + this.reach) / SIDE); l <= l1; l++) {
        const t = this.at(c, l)
        if (!t || (t.stale && !t.job)) continue
        t.late.push(ordinal)
        visit(t)
      }
    }
  }

  /** outgrown reports a tile that is better drawn anew than mended. */
  outgrown(t: Tile): boolean { return t.late.length > LATE_MAX }

  private look(ordinal: number): Look {
    const { chart, states, wanted } = this.scene
    const tier = chart.tierOf[ordinal]!
    return { state: states[ordinal] ?? FREE, tier, flags: chart.flags[ordinal]!, dim: wanted !== null && !wanted[tier] }
  }

  private rect(t: Tile, margin: number): Rect {
    const s = this.scale
    return {
      left: (t.column * SIDE - margin) / s, top: (t.line * SIDE - margin) / s,
      right: ((t.column + 1) * SIDE + margin) / s, bottom: ((t.line + 1) * SIDE + margin) / s
    }
  }

  /** build goes on drawing a tile until it is done or the time is up, and reports whether it is done. */
  build(t: Tile, until: number): boolean {
    const job = t.job ??= this.begin(t)
    while (job.next < job.seats.length) {
      const end = Math.min(job.next + STEP, job.seats.length)
      for (; job.next < end; job.next++) this.paint(job, t, job.seats[job.next]!)
      if (performance.now() > until && job.next < job.seats.length) return false
    }
    if (job.pixels) job.ctx.putImageData(job.pixels, 0, 0)
    if (this.numbered) this.rowLabels(job.ctx, t)
    t.shown = job.canvas
    t.job = null
    t.stale = false
    this.mend(t)
    return true
  }

  private begin(t: Tile): Job {
    const canvas = square()
    const ctx = canvas.getContext('2d')!
    if (!t.under) this.decorate(t)
    t.late = []
    return { canvas, ctx, seats: this.scene.chart.grid.within(this.rect(t, this.reach)), next: 0, pixels: this.dense ? ctx.createImageData(SIDE, SIDE) : null }
  }

  private paint(job: Job, t: Tile, ordinal: number): void {
    const { chart } = this.scene
    if (job.pixels) {
      const d = this.dot(this.look(ordinal))
      addBox(job.pixels.data, SIDE, SIDE, chart.x[ordinal]! * this.scale - t.column * SIDE, chart.y[ordinal]! * this.scale - t.line * SIDE,
        chart.size * this.scale * d.share, d.color, d.weight)
    } else {
      this.stamp(job.ctx, t, ordinal)
    }
  }

  /** corner is where the mark of a seat begins, in whole pixels of the layer. */
  corner(ordinal: number): { x: number; y: number } {
    const { chart } = this.scene, half = this.marks.side / 2
    return { x: Math.round(chart.x[ordinal]! * this.scale - half), y: Math.round(chart.y[ordinal]! * this.scale - half) }
  }

  private stamp(ctx: CanvasRenderingContext2D, t: Tile, ordinal: number): void {
    const l = this.look(ordinal), at = this.corner(ordinal), side = this.marks.side
    const x = at.x - t.column * SIDE, y = at.y - t.line * SIDE
    ctx.drawImage(this.marks.mark(l), x, y)
    if (!this.numbered || l.state !== FREE || l.flags) return
    ctx.font = `500 ${Math.round(side * 0.44)}px system-ui, sans-serif`
    ctx.textAlign = 'center'
    ctx.textBaseline = 'middle'
    ctx.globalAlpha = l.dim ? 0.35 : 1
    ctx.fillStyle = css(l.dim ? this.scene.theme.ink : on(this.scene.colors[l.tier]!))
    ctx.fillText(this.scene.chart.labels[ordinal]!, x + side / 2, y + side * 0.53, side * 0.88)
    ctx.globalAlpha = 1
  }

  private rowLabels(ctx: CanvasRenderingContext2D, t: Tile): void {
    const { chart, theme } = this.scene, r = this.rect(t, 0), seen = new Set<number>()
    ctx.font = `600 ${Math.round(this.marks.side * 0.46)}px system-ui, sans-serif`
    ctx.textAlign = 'center'
    ctx.textBaseline = 'middle'
    ctx.fillStyle = css(theme.soft)
    chart.grid.each({ left: r.left - 2 * chart.pitch, top: r.top - 2 * chart.pitch, right: r.right + 2 * chart.pitch, bottom: r.bottom + 2 * chart.pitch }, i => {
      const n = chart.rowOf[i]!, row = chart.rows[n]!
      if (i !== row.first || seen.has(n)) return
      seen.add(n)
      // Beside the first seat, on the line that the row comes from.
      let dx = -1, dy = 0
      if (row.count > 1) {
        dx = chart.x[i]! - chart.x[i + 1]!
        dy = chart.y[i]! - chart.y[i + 1]!
        const long = Math.hypot(dx, dy) || 1
        dx /= long
        dy /= long
      }
      const x = (chart.x[i]! + dx * chart.pitch * 1.05) * this.scale, y = (chart.y[i]! + dy * chart.pitch * 1.05) * this.scale
      ctx.fillText(row.label, x - t.column * SIDE, y - t.line * SIDE, this.marks.side)
    })
  }

  /** mend draws again what changed in a tile that is shown, until the time is up, and reports whether it is done. */
  mend(t: Tile, until = Infinity): boolean {
    if (!t.late.length || !t.shown || t.job) return true
    const late = t.late
    t.late = []
    const ctx = t.shown.getContext('2d')!
    for (let i = 0; i < late.length; i++) {
      if (i % MEND_STEP === MEND_STEP - 1 && performance.now() > until) {
        t.late = late.slice(i)
        return false
      }
      if (this.dense) this.mendBox(ctx, t, late[i]!)
      else this.mendMark(ctx, t, late[i]!)
    }
    return true
  }

  private mendMark(ctx: CanvasRenderingContext2D, t: Tile, ordinal: number): void {
    const at = this.corner(ordinal)
    ctx.clearRect(at.x - t.column * SIDE, at.y - t.line * SIDE, this.marks.side, this.marks.side)
    this.stamp(ctx, t, ordinal)
  }

  private mendBox(ctx: CanvasRenderingContext2D, t: Tile, ordinal: number): void {
    const { chart } = this.scene, s = this.scale
    const x = chart.x[ordinal]! * s - t.column * SIDE, y = chart.y[ordinal]! * s - t.line * SIDE
    // Seats share pixels with their neighbours: a small piece is drawn anew as a whole.
    const left = Math.floor(x - this.reach), top = Math.floor(y - this.reach), side = Math.ceil(2 * this.reach) + 1
    patch ??= new ImageData(PATCH, PATCH)
    patch.data.fill(0)
    const part: Rect = {
      left: (t.column * SIDE + left - this.reach) / s, right: (t.column * SIDE + left + side + this.reach) / s,
      top: (t.line * SIDE + top - this.reach) / s, bottom: (t.line * SIDE + top + side + this.reach) / s
    }
    chart.grid.each(part, i => {
      const d = this.dot(this.look(i))
      addBox(patch!.data, PATCH, side, chart.x[i]! * s - t.column * SIDE - left, chart.y[i]! * s - t.line * SIDE - top, chart.size * s * d.share, d.color, d.weight)
    })
    ctx.putImageData(patch, left, top, 0, 0, side, side)
  }

  private decorate(t: Tile): void {
    const { decorations } = this.scene.chart
    if (!decorations.length) return
    const r = this.rect(t, 0)
    let ctx: CanvasRenderingContext2D | null = null
    for (const d of decorations) {
      const b = decorationBox(d)
      // A word may be wider than what it stands on.
      const more = d.text ? d.text.length * (d.height || 24) : 0
      if (b.left - more > r.right || b.right + more < r.left || b.top - more > r.bottom || b.bottom + more < r.top) continue
      if (!ctx) {
        t.under = square()
        ctx = t.under.getContext('2d')!
        ctx.setTransform(this.scale, 0, 0, this.scale, -t.column * SIDE, -t.line * SIDE)
      }
      drawDecoration(ctx, d, this.scene.theme)
    }
  }
}

/** MEND_STEP is how many seats are mended between two looks at the clock. */
const MEND_STEP = 8

/** PATCH is the side of the largest piece that a box can need: the boxes of two neighbours and an edge. */
const PATCH = 2 * DENSE_BELOW + 8
let patch: ImageData | null = null

function square(): HTMLCanvasElement {
  const c = document.createElement('canvas')
  c.width = c.height = SIDE
  return c
}

function drawDecoration(ctx: CanvasRenderingContext2D, d: Decoration, theme: Theme): void {
  const w = d.width ?? 0, h = d.height ?? 0
  ctx.save()
  ctx.translate(d.x, d.y)
  if (d.rotation) ctx.rotate(d.rotation * Math.PI / 180)
  ctx.beginPath()
  let middle = { x: 0, y: 0 }
  switch (d.shape) {
    case 'rectangle':
      ctx.roundRect(0, 0, w, h, Math.min(w, h) * 0.06)
      middle = { x: w / 2, y: h / 2 }
      break
    case 'ellipse':
      ctx.ellipse(0, 0, w / 2, h / 2, 0, 0, 7)
      break
    case 'polygon':
      for (const [x, y] of d.points ?? []) ctx.lineTo(x, y)
      ctx.closePath()
      for (const [x, y] of d.points ?? []) middle = { x: middle.x + x / d.points!.length, y: middle.y + y / d.points!.length }
  }
  if (d.shape !== 'text' && d.color) {
    ctx.fillStyle = d.color
    ctx.fill()
  }
  if (d.shape !== 'text' && (d.borderColor || (theme.dark && d.color))) {
    ctx.strokeStyle = theme.dark ? css(theme.line) : d.borderColor!
    ctx.lineWidth = Math.max(1 / ctx.getTransform().a, Math.min(w, h) * 0.01)
    ctx.stroke()
  }
  if (d.text) {
    const size = Math.min(h ? h * 0.4 : 24, w ? w * 1.4 / Math.max(d.text.length, 1) : 24)
    ctx.font = `700 ${size}px system-ui, sans-serif`
    ctx.textAlign = 'center'
    ctx.textBaseline = 'middle'
    ctx.fillStyle = d.shape !== 'text' && d.color ? css(on(parse(d.color))) : css(theme.soft)
    ctx.fillText(d.text, middle.x, middle.y, w || undefined)
  }
  ctx.restore()
}
