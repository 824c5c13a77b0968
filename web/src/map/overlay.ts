// What lies over the tiles and is drawn in every frame: names of sections, and the
// seats that are chosen, pointed at, or spoken of.
import type { Box } from './chart'
import { FREE } from './picture'
import type { Layer, Scene } from './tiles'
import { css, mix, on } from './theme'
import { toScreen, type Size, type Viewport } from './viewport'

/** Names are shown while a seat is smaller than this, in CSS pixels. */
const NAMES_BELOW = 9
const NAME_WIDTH = 150
/** WIDER is how much wider than its section a name may be: it lies over its neighbours' seats, never over their names. */
const WIDER = 2.5

interface Sign { canvas: HTMLCanvasElement; width: number; height: number; soldOut: boolean }

export class Overlay {
  selected: number[] = []
  marked: number[] = []
  pointed = -1
  focused = -1
  private readonly signs = new Map<number, Sign>()
  private free: Uint32Array | null = null

  /** order is in which names are placed: every fourth section first, so that those that find room are spread. */
  private readonly order: number[]

  constructor(private readonly scene: Scene) {
    const all = scene.chart.sections.map((_, i) => i)
    this.order = [0, 2, 1, 3].flatMap(k => all.filter(i => i % 4 === k))
  }

  /** recount is called when states changed. */
  recount(): void { this.free = null }
  restyle(): void { this.signs.clear() }

  draw(ctx: CanvasRenderingContext2D, v: Viewport, size: Size, layer: Layer, exact: boolean): void {
    const { ratio, chart, theme } = this.scene, seat = chart.size * v.scale
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0)
    if (seat < NAMES_BELOW) this.names(ctx, v, size)
    /** corner puts a ring exactly on the mark below it. */
    const box = (ordinal: number): { x: number; y: number; side: number } => {
      if (exact && !layer.dense) {
        const at = layer.corner(ordinal)
        return { x: (at.x - Math.round(v.x * v.scale * ratio)) / ratio, y: (at.y - Math.round(v.y * v.scale * ratio)) / ratio, side: layer.marks.side / ratio }
      }
      const at = toScreen(v, chart.x[ordinal]!, chart.y[ordinal]!)
      return { x: at.x - seat / 2, y: at.y - seat / 2, side: seat }
    }
    const ring = (ordinal: number, gap: number, width: number, color: string): void => {
      const b = box(ordinal)
      ctx.strokeStyle = color
      ctx.lineWidth = width
      ctx.beginPath()
      ctx.roundRect(b.x - gap, b.y - gap, b.side + 2 * gap, b.side + 2 * gap, b.side * 0.28 + gap)
      ctx.stroke()
    }
    if (this.pointed >= 0) ring(this.pointed, 1.5, 2, css(theme.ink, 0.75))
    for (const i of this.marked) ring(i, 2.5, 3, css(theme.accent))
    for (const i of this.selected) this.tick(ctx, box(i))
    if (this.focused >= 0) {
      ring(this.focused, 3, 5, css(theme.paper))
      ring(this.focused, 3, 3, css(theme.accent))
    }
  }

  /** tick is a chosen seat: larger than its neighbours, ringed, with a check mark; a pin while seats are too small for that. */
  private tick(ctx: CanvasRenderingContext2D, b: { x: number; y: number; side: number }): void {
    const { theme } = this.scene, x = b.x + b.side / 2, y = b.y + b.side / 2, r = Math.max(b.side * 0.62, 7)
    ctx.beginPath()
    ctx.arc(x, y, r + 2, 0, 7)
    ctx.fillStyle = css(theme.paper)
    ctx.fill()
    ctx.beginPath()
    ctx.arc(x, y, r, 0, 7)
    ctx.fillStyle = css(theme.accent)
    ctx.fill()
    ctx.strokeStyle = css(on(theme.accent))
    ctx.lineWidth = Math.max(1.75, r * 0.22)
    ctx.lineCap = ctx.lineJoin = 'round'
    ctx.beginPath()
    ctx.moveTo(x - r * 0.42, y + r * 0.02)
    ctx.lineTo(x - r * 0.1, y + r * 0.34)
    ctx.lineTo(x + r * 0.44, y - r * 0.32)
    ctx.stroke()
  }

  private names(ctx: CanvasRenderingContext2D, v: Viewport, size: Size): void {
    const { chart } = this.scene
    if (chart.sections.length < 2) return
    const free = this.count(), taken: Box[] = []
    for (const i of this.order) {
      const s = chart.sections[i]!, at = toScreen(v, s.middle.x, s.middle.y)
      if (at.x < -80 || at.y < -20 || at.x > size.width + 80 || at.y > size.height + 20) continue
      const sign = this.sign(i, free[i] === 0)
      if (sign.width > (s.box.right - s.box.left + chart.pitch) * v.scale * WIDER) continue
      const left = Math.round(at.x - sign.width / 2), top = Math.round(at.y - sign.height / 2)
      const box = { left, top, right: left + sign.width, bottom: top + sign.height }
      if (taken.some(b => b.left < box.right && b.right > box.left && b.top < box.bottom && b.bottom > box.top)) continue
      taken.push(box)
      ctx.drawImage(sign.canvas, left, top, sign.width, sign.height)
    }
  }

  private count(): Uint32Array {
    if (this.free) return this.free
    const { chart, states } = this.scene
    const free = new Uint32Array(chart.sections.length)
    chart.sections.forEach((s, i) => {
      for (let k = s.first; k < s.first + s.count; k++) if (states[k] === FREE) free[i]!++
    })
    return this.free = free
  }

  private sign(index: number, soldOut: boolean): Sign {
    const known = this.signs.get(index)
    if (known?.soldOut === soldOut) return known
    const { theme, ratio, chart } = this.scene
    const canvas = document.createElement('canvas'), ctx = canvas.getContext('2d')!
    const font = '600 11px system-ui, "Noto Sans TC", "PingFang TC", "Microsoft JhengHei", sans-serif'
    ctx.font = font
    let text = chart.sections[index]!.name
    if (ctx.measureText(text).width > NAME_WIDTH) {
      const letters = [...text]
      while (letters.length && ctx.measureText(letters.join('') + '…').width > NAME_WIDTH) letters.pop()
      text = letters.join('') + '…'
    }
    const width = Math.ceil(ctx.measureText(text).width) + 10, height = 17
    canvas.width = width * ratio
    canvas.height = height * ratio
    ctx.scale(ratio, ratio)
    ctx.font = font
    ctx.textAlign = 'center'
    ctx.textBaseline = 'middle'
    ctx.fillStyle = css(theme.paper, 0.88)
    ctx.beginPath()
    ctx.roundRect(0, 0, width, height, 5)
    ctx.fill()
    ctx.fillStyle = css(soldOut ? mix(theme.ink, theme.paper, 0.4) : theme.ink)
    ctx.fillText(text, width / 2, height / 2 + 0.5)
    if (soldOut) ctx.fillRect(4, height / 2, width - 8, 1)
    const sign = { canvas, width, height, soldOut }
    this.signs.set(index, sign)
    return sign
  }
}
