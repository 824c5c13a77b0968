// The map on the screen: one canvas, redrawn only when something moved or changed.
// Every frame has a budget; what does not fit waits for the next one.
import type { Box, Chart } from './chart'
import { gestures } from './gestures'
import { Overlay } from './overlay'
import { Layer, SIDE, type Scene, type Tile } from './tiles'
import { tierColors, css, readTheme } from './theme'
import { between, clamp, fit, glide, pan, shown, toChart, toScreen, zoom, type Limits, type Size, type Speed, type Viewport } from './viewport'

/** Milliseconds of a frame that go into new tiles: little while somebody moves the map, more while it rests. */
const BUDGET_MOVING = 5
const BUDGET_RESTING = 18
/** BUDGET_MENDING is how many milliseconds of the page a frame of changes takes at once. */
const BUDGET_MENDING = 2
/** SETTLE is how long after the last zoom the tiles are drawn at the new scale. */
const SETTLE = 130
/** A layer is stretched this much before another is drawn in the middle of a move. */
const STRETCH = 1.8
/** TILES_MAX is how many tiles of a layer are kept. */
const TILES_MAX = 40
/** MEND_MAX is how many seats are mended one by one; more are drawn anew. */
const MEND_MAX = 2000
const SEAT_LARGE = 46
const MARGIN = 12
/** PICKABLE is the least size of a seat, in CSS pixels, that a tap chooses; on smaller ones it comes nearer. */
export const PICKABLE = 15

export interface SeatViewEvents {
  /** pick is a tap or a key on a seat. */
  pick(ordinal: number): void
  /** point is the seat under the mouse or the keyboard's focus: -1 is none. */
  point(ordinal: number, x: number, y: number, how: 'mouse' | 'keys'): void
  /** painted comes once, when the first picture is complete. */
  painted(): void
  moved(): void
  /** themed is told the colours of the chart's tiers as they are painted. */
  themed(colors: string[]): void
}

export class SeatView {
  private readonly ctx: CanvasRenderingContext2D
  private readonly scene: Scene
  private readonly overlay: Overlay
  private size: Size = { width: 0, height: 0 }
  private viewport: Viewport = { x: 0, y: 0, scale: 1 }
  /** told is the viewport that the page was told about last. */
  private told: Viewport | null = null
  private limits: Limits = { min: 0.001, max: 1000 }
  private layer!: Layer
  /** whole is the layer that shows all of the chart; it stands in where others are not drawn yet. */
  private whole!: Layer
  private before: Layer | null = null
  private frame = 0
  private last = 0
  private turn = 0
  private hand = false
  private speed: Speed | null = null
  private way: { from: Viewport; to: Viewport; start: number; time: number } | null = null
  private zoomed = 0
  private switched = 0
  private complete = false
  /** untouched is true until somebody moves the map: a new size then fits it again. */
  private untouched = true
  private focused = -1
  private readonly endings: (() => void)[] = []

  constructor(private readonly canvas: HTMLCanvasElement, private readonly chart: Chart, states: Uint8Array, private readonly events: SeatViewEvents) {
    this.ctx = canvas.getContext('2d', { alpha: false })!
    const theme = readTheme(canvas)
    this.scene = { chart, theme, colors: tierColors(chart, theme), states, wanted: null, ratio: 1 }
    this.overlay = new Overlay(this.scene)
    events.themed(this.scene.colors.map(c => css(c)))
    this.resize()
    const watch = new ResizeObserver(() => this.resize())
    watch.observe(canvas)
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const retheme = (): void => this.retheme()
    dark.addEventListener('change', retheme)
    this.endings.push(() => watch.disconnect(), () => dark.removeEventListener('change', retheme), gestures(canvas, {
      pan: (dx, dy) => this.panBy(dx, dy),
      zoom: (factor, x, y) => this.zoomBy(factor, x, y),
      hand: (down, speed) => this.handle(down, speed),
      tap: (x, y) => this.tap(x, y),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.point(-1, 'mouse')
    }))
    const keys = (e: KeyboardEvent): void => this.key(e)
    const blur = (): void => this.focus(-1)
    canvas.addEventListener('keydown', keys)
    canvas.addEventListener('blur', blur)
    this.endings.push(() => canvas.removeEventListener('keydown', keys), () => canvas.removeEventListener('blur', blur))
  }

  destroy(): void {
    cancelAnimationFrame(this.frame)
    for (const end of this.endings) end()
  }

  // What the page says.

  /** setStates puts another picture in place; changed are the seats whose state is another. */
  setStates(states: Uint8Array, changed: number[]): void {
    this.scene.states = states
    this.patch(changed)
  }

  /** patch shows the new states of some seats. */
  patch(changed: number[]): void {
    if (!changed.length) return
    this.overlay.recount()
    // Until the map was once in sight, nothing is drawn that could be mended.
    if (!this.layer) return
    const layers = new Set([this.layer, this.whole, ...(this.before ? [this.before] : [])])
    if (changed.length > MEND_MAX) {
      for (const l of layers) l.spoil()
    } else {
      const now = new Set<Tile>()
      for (const l of layers) {
        for (const i of changed) {
          l.touch(i, t => {
            if (l.outgrown(t)) {
              if (t.used === this.turn) t.stale = true
              else l.drop(t)
              t.late = []
            } else if (l === this.layer && t.used === this.turn) {
              now.add(t)
            }
          })
        }
      }
      // What takes longer than that is drawn with the next frames.
      const until = performance.now() + BUDGET_MENDING
      for (const t of now) this.layer.mend(t, until)
    }
    this.wake()
  }

  /** want dims the free seats of all tiers but these; null wants all. */
  want(tiers: Uint8Array | null): void {
    this.scene.wanted = tiers
    this.respoil()
  }

  select(ordinals: number[]): void {
    this.overlay.selected = ordinals
    this.wake()
  }

  /** mark rings seats that something is said about, and shows them when they are out of sight. */
  mark(ordinals: number[]): void {
    this.overlay.marked = ordinals
    if (ordinals.length && this.layer) this.reveal(ordinals)
    this.wake()
  }

  showAll(): void { this.go(this.home()) }
  showSection(index: number): void { this.untouched = false; this.go(this.fitted(this.chart.sections[index]!.box)) }
  zoomStep(factor: number): void {
    this.untouched = false
    const to = zoom(this.way?.to ?? this.viewport, factor, this.size.width / 2, this.size.height / 2, this.limits)
    this.go(clamp(to, this.chart.bounds, this.size))
  }
  get canZoomIn(): boolean { return this.viewport.scale < this.limits.max * 0.999 }
  get canZoomOut(): boolean { return this.viewport.scale > this.limits.min * 1.001 }

  private respoil(): void {
    for (const l of [this.layer, this.whole, this.before]) l?.spoil()
    this.wake()
  }

  private retheme(): void {
    this.scene.theme = readTheme(this.canvas)
    this.scene.colors = tierColors(this.chart, this.scene.theme)
    this.events.themed(this.scene.colors.map(c => css(c)))
    this.overlay.restyle()
    if (!this.layer) return
    this.whole = new Layer(this.whole.scale, this.scene)
    this.layer = new Layer(this.layer.scale, this.scene)
    this.before = null
    this.wake()
  }

  // Size and place.

  private resize(): void {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight
    const ratio = Math.min(2, Math.max(1, window.devicePixelRatio || 1))
    if (!width || !height || (width === this.size.width && height === this.size.height && ratio === this.scene.ratio && this.layer)) return
    const middle = this.layer ? toChart(this.viewport, this.size.width / 2, this.size.height / 2) : null
    this.size = { width, height }
    this.scene.ratio = ratio
    this.canvas.width = Math.round(width * ratio)
    this.canvas.height = Math.round(height * ratio)
    const home = fit(this.chart.bounds, this.size, MARGIN, SEAT_LARGE / this.chart.pitch)
    this.limits = { min: home.scale, max: Math.max(SEAT_LARGE / this.chart.pitch, home.scale) }
    this.whole = new Layer(home.scale * ratio, this.scene)
    if (!middle || this.untouched) {
      this.viewport = home
    } else {
      const scale = Math.min(this.limits.max, Math.max(this.limits.min, this.viewport.scale))
      this.viewport = clamp({ x: middle.x - width / 2 / scale, y: middle.y - height / 2 / scale, scale }, this.chart.bounds, this.size)
    }
    this.way = null
    this.before = null
    this.layer = this.viewport.scale === home.scale ? this.whole : new Layer(this.viewport.scale * ratio, this.scene)
    this.wake()
  }

  private home(): Viewport { return fit(this.chart.bounds, this.size, MARGIN, this.limits.max) }

  private fitted(box: Box): Viewport {
    const p = this.chart.pitch
    const v = fit({ left: box.left - p, top: box.top - p, right: box.right + p, bottom: box.bottom + p }, this.size, MARGIN, this.limits.max)
    // A large section is shown in part, but so that a seat of it can be chosen.
    const least = Math.min(this.limits.max, (PICKABLE + 5) / this.chart.size)
    if (v.scale >= least) return clamp(v, this.chart.bounds, this.size)
    return clamp(zoom(v, least / v.scale, this.size.width / 2, this.size.height / 2, this.limits), this.chart.bounds, this.size)
  }

  private reveal(ordinals: number[]): void {
    const r = shown(this.viewport, this.size), { x, y, size } = this.chart
    const seen = ordinals.every(i => x[i]! > r.left && x[i]! < r.right && y[i]! > r.top && y[i]! < r.bottom)
    if (seen && this.viewport.scale * size >= PICKABLE) return
    this.untouched = false
    const xs = ordinals.map(i => x[i]!), ys = ordinals.map(i => y[i]!), around = this.chart.pitch * 5
    this.go(this.fitted({ left: Math.min(...xs) - around, right: Math.max(...xs) + around, top: Math.min(...ys) - around, bottom: Math.max(...ys) + around }))
  }

  private go(to: Viewport): void {
    this.speed = null
    this.zoomed = performance.now()
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) {
      this.viewport = to
      this.way = null
      this.zoomed = 0
    } else {
      this.way = { from: this.viewport, to, start: performance.now(), time: 260 }
    }
    this.wake()
  }

  private panBy(dx: number, dy: number): void {
    this.untouched = false
    this.way = null
    this.viewport = clamp(pan(this.viewport, dx, dy), this.chart.bounds, this.size)
    this.wake()
  }

  private zoomBy(factor: number, x: number, y: number): boolean {
    if (factor < 1 ? !this.canZoomOut : !this.canZoomIn) return false
    this.untouched = false
    this.way = null
    this.speed = null
    this.viewport = clamp(zoom(this.viewport, factor, x, y, this.limits), this.chart.bounds, this.size)
    this.zoomed = performance.now()
    this.wake()
    return true
  }

  private handle(down: boolean, speed: Speed | null): void {
    this.hand = down
    this.speed = !down && !matchMedia('(prefers-reduced-motion: reduce)').matches ? speed : null
    if (down) this.way = null
    this.wake()
  }

  // Choosing.

  /** seatAt is the seat at a point of the screen, or -1. */
  seatAt(x: number, y: number): number {
    const at = toChart(this.viewport, x, y)
    // A finger is wider than a seat: what is nearest counts within half a pitch and a little more.
    return this.chart.grid.nearest(at.x, at.y, Math.max(this.chart.pitch * 0.75, 10 / this.viewport.scale))
  }

  private get seatSize(): number { return this.chart.size * this.viewport.scale }

  private tap(x: number, y: number): void {
    if (this.seatSize >= PICKABLE) {
      const seat = this.seatAt(x, y)
      if (seat >= 0) this.events.pick(seat)
      return
    }
    // The map moves away under the mouse.
    this.point(-1, 'mouse')
    const at = toChart(this.viewport, x, y)
    const scale = Math.min(this.limits.max, Math.max((PICKABLE + 7) / this.chart.size, this.viewport.scale))
    this.untouched = false
    this.go(clamp(zoom({ x: at.x - this.size.width / 2 / this.viewport.scale, y: at.y - this.size.height / 2 / this.viewport.scale, scale: this.viewport.scale },
      scale / this.viewport.scale, this.size.width / 2, this.size.height / 2, this.limits), this.chart.bounds, this.size))
  }

  private hover(x: number, y: number): void {
    // Where a tap only comes nearer, a seat's name would promise more.
    const seat = this.seatSize >= PICKABLE ? this.seatAt(x, y) : -1
    this.canvas.classList.toggle('pointing', seat >= 0)
    this.point(seat, 'mouse')
  }

  private point(seat: number, how: 'mouse' | 'keys'): void {
    if (this.overlay.pointed === seat && how === 'mouse') return
    this.overlay.pointed = seat
    this.tell(how)
    this.wake()
  }

  /** tell says where the seat pointed at is now. */
  private tell(how: 'mouse' | 'keys'): void {
    const seat = this.overlay.pointed
    const at = seat >= 0 ? toScreen(this.viewport, this.chart.x[seat]!, this.chart.y[seat]!) : { x: 0, y: 0 }
    this.events.point(seat, at.x, at.y - this.seatSize / 2, how)
  }

  private focus(seat: number): void {
    this.focused = seat
    this.overlay.focused = seat
    this.point(seat, 'keys')
    if (seat >= 0) this.reveal([seat])
  }

  private key(e: KeyboardEvent): void {
    if (e.altKey || e.ctrlKey || e.metaKey) return
    const arrows: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }
    const arrow = arrows[e.key]
    if (arrow) {
      const middle = toChart(this.viewport, this.size.width / 2, this.size.height / 2)
      const next = this.focused < 0
        ? this.chart.grid.nearest(middle.x, middle.y, Infinity)
        : this.chart.grid.next(this.focused, arrow[0], arrow[1], this.chart.pitch)
      if (next >= 0) this.focus(next)
    } else if ((e.key === 'Enter' || e.key === ' ') && this.focused >= 0) {
      this.events.pick(this.focused)
    } else if (e.key === '+' || e.key === '=') {
      this.zoomStep(1.6)
    } else if (e.key === '-') {
      this.zoomStep(1 / 1.6)
    } else if (e.key === '0' || e.key === 'Home') {
      this.showAll()
    } else {
      return
    }
    e.preventDefault()
  }

  // Drawing.

  private wake(): void {
    if (!this.frame && this.layer) this.frame = requestAnimationFrame(now => this.draw(now))
  }

  private draw(now: number): void {
    this.frame = 0
    const elapsed = Math.min(64, Math.max(1, now - this.last))
    this.last = now
    this.turn++
    const moving = this.move(now, elapsed)
    this.chooseLayer(now, moving)
    const tiles = this.visible(this.layer)
    for (const t of tiles) t.used = this.turn
    const more = this.build(tiles, moving)
    this.paint(tiles)
    this.prune(this.layer)
    if (!this.complete && tiles.every(t => t.shown)) {
      this.complete = true
      this.events.painted()
    }
    // Whoever wants no motion gets there in one step, which is a move as well.
    if (moving || this.told !== this.viewport) {
      this.told = this.viewport
      this.events.moved()
      if (this.overlay.pointed >= 0) this.tell('mouse')
    }
    const settling = !this.hand && this.layer.scale !== this.scale && this.zoomed > 0
    if (moving || more || settling) this.wake()
  }

  /** scale is device pixels to a chart unit, as it is looked at now. */
  private get scale(): number { return this.viewport.scale * this.scene.ratio }

  private move(now: number, elapsed: number): boolean {
    if (this.way) {
      const share = Math.min(1, Math.max(0, now - this.way.start) / this.way.time), eased = 1 - (1 - share) ** 3
      this.viewport = between(this.way.from, this.way.to, eased, this.size)
      if (share >= 1) {
        this.way = null
        this.zoomed = 1
      }
      return true
    }
    if (this.speed) {
      const g = glide(this.speed, elapsed), before = this.viewport
      this.viewport = clamp(pan(before, g.dx, g.dy), this.chart.bounds, this.size)
      // Against the edge the throw is over.
      this.speed = this.viewport.x === before.x && this.viewport.y === before.y ? null : g.speed
      return true
    }
    return this.hand || now - this.zoomed < SETTLE
  }

  private chooseLayer(now: number, moving: boolean): void {
    const stretch = this.scale / this.layer.scale
    if (stretch === 1) return
    const far = stretch > STRETCH || stretch < 1 / STRETCH
    if (moving && !(far && now - this.switched > SETTLE)) return
    if (this.visible(this.layer).some(t => t.shown)) this.before = this.layer
    this.layer = this.scale === this.whole.scale ? this.whole : new Layer(this.scale, this.scene)
    if (this.before === this.layer || this.before === this.whole) this.before = null
    this.switched = now
  }

  /** visible are the tiles of a layer that the screen shows, from the middle outwards. */
  private visible(l: Layer, ring = 0): Tile[] {
    const r = shown(this.viewport, this.size), s = l.scale / SIDE
    const left = Math.floor(r.left * s) - ring, right = Math.floor(r.right * s) + ring, top = Math.floor(r.top * s) - ring, bottom = Math.floor(r.bottom * s) + ring
    const found: Tile[] = []
    for (let line = top; line <= bottom; line++) for (let column = left; column <= right; column++) found.push(l.need(column, line))
    const mx = (left + right) / 2, my = (top + bottom) / 2
    return found.sort((a, b) => Math.hypot(a.column - mx, a.line - my) - Math.hypot(b.column - mx, b.line - my))
  }

  /** build draws what is missing for as long as the budget lasts, and reports whether something is left. */
  private build(tiles: Tile[], moving: boolean): boolean {
    const until = performance.now() + (moving ? BUDGET_MOVING : BUDGET_RESTING)
    for (const t of tiles) if (!this.layer.mend(t, until)) return true
    const wanted: [Layer, Tile[]][] = [[this.layer, tiles]]
    if (!moving && this.complete) {
      if (this.layer.scale === this.scale) wanted.push([this.layer, this.visible(this.layer, 1)])
      if (this.whole !== this.layer) wanted.push([this.whole, [...this.whole.tiles.values()]])
    }
    for (const [layer, list] of wanted) {
      for (const t of list) {
        if (t.shown && !t.stale) continue
        if (!layer.build(t, until)) return true
        if (performance.now() > until) return true
      }
    }
    return false
  }

  private prune(l: Layer): void {
    if (l.tiles.size <= TILES_MAX) return
    const old = [...l.tiles.values()].filter(t => t.used !== this.turn).sort((a, b) => a.used - b.used)
    for (const t of old.slice(0, l.tiles.size - TILES_MAX)) l.drop(t)
  }

  private paint(tiles: Tile[]): void {
    const ctx = this.ctx
    ctx.setTransform(1, 0, 0, 1, 0, 0)
    ctx.fillStyle = css(this.scene.theme.paper)
    ctx.fillRect(0, 0, this.canvas.width, this.canvas.height)
    const stretch = this.scale / this.layer.scale
    const x0 = Math.round(this.viewport.x * this.scale), y0 = Math.round(this.viewport.y * this.scale)
    for (const t of tiles) {
      // Edges are rounded, so that neighbours neither overlap nor part.
      const left = Math.round(t.column * SIDE * stretch) - x0, top = Math.round(t.line * SIDE * stretch) - y0
      const right = Math.round((t.column + 1) * SIDE * stretch) - x0, bottom = Math.round((t.line + 1) * SIDE * stretch) - y0
      if (t.shown) {
        if (t.under) ctx.drawImage(t.under, left, top, right - left, bottom - top)
        ctx.drawImage(t.shown, left, top, right - left, bottom - top)
      } else {
        this.standIn(left, top, right, bottom, x0, y0)
      }
    }
    // Until there is a first picture, half of it would look like all there is.
    if (!this.complete && !tiles.every(t => t.shown)) return this.outline()
    this.overlay.draw(ctx, this.viewport, this.size, this.layer, stretch === 1)
  }

  /** outline shows where the sections are. */
  private outline(): void {
    const { ctx, chart, scene: { theme, ratio } } = this, p = chart.pitch / 2
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0)
    ctx.fillStyle = css(theme.line)
    ctx.beginPath()
    for (const { box } of chart.sections) {
      const a = toScreen(this.viewport, box.left - p, box.top - p), b = toScreen(this.viewport, box.right + p, box.bottom + p)
      ctx.roundRect(a.x, a.y, b.x - a.x, b.y - a.y, 3)
    }
    ctx.fill()
  }

  /** standIn fills the place of a tile that is not drawn yet from another layer. */
  private standIn(left: number, top: number, right: number, bottom: number, x0: number, y0: number): void {
    const from = this.before && this.visible(this.before).every(t => t.shown) ? this.before : this.whole
    const k = from.scale / this.scale
    const r = { left: (left + x0) * k, top: (top + y0) * k, right: (right + x0) * k, bottom: (bottom + y0) * k }
    for (let c = Math.floor(r.left / SIDE); c * SIDE < r.right; c++) {
      for (let l = Math.floor(r.top / SIDE); l * SIDE < r.bottom; l++) {
        const t = from.at(c, l)
        if (!t?.shown) continue
        from.mend(t)
        const sx = Math.max(r.left, c * SIDE), sy = Math.max(r.top, l * SIDE), sw = Math.min(r.right, (c + 1) * SIDE) - sx, sh = Math.min(r.bottom, (l + 1) * SIDE) - sy
        if (sw <= 0 || sh <= 0) continue
        for (const image of [t.under, t.shown]) {
          if (image) this.ctx.drawImage(image, sx - c * SIDE, sy - l * SIDE, sw, sh, sx / k - x0, sy / k - y0, sw / k, sh / k)
        }
      }
    }
  }
}
