// Colours of the map: those of the page for what is taken, those of the chart's tiers
// for what is free.
import type { Chart } from './chart'

export type RGB = readonly [number, number, number]

export interface Theme {
  dark: boolean
  paper: RGB
  ink: RGB
  soft: RGB
  line: RGB
  accent: RGB
}

let reader: CanvasRenderingContext2D | null = null

/** parse reads any colour that CSS knows, black where it is none. */
export function parse(color: string): RGB {
  reader ??= document.createElement('canvas').getContext('2d', { willReadFrequently: true })!
  reader.canvas.width = reader.canvas.height = 1
  reader.fillStyle = '#000'
  reader.fillStyle = color
  reader.fillRect(0, 0, 1, 1)
  const [r, g, b] = reader.getImageData(0, 0, 1, 1).data
  return [r!, g!, b!]
}

/** readTheme takes the map's colours from the custom properties of an element. */
export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element)
  const get = (name: string): RGB => parse(style.getPropertyValue('--map-' + name).trim())
  const paper = get('paper')
  return { dark: luminance(paper) < 0.2, paper, ink: get('ink'), soft: get('soft'), line: get('line'), accent: get('accent') }
}

export const css = (c: RGB, alpha = 1): string => `rgba(${c[0]},${c[1]},${c[2]},${alpha})`
export const mix = (a: RGB, b: RGB, share: number): RGB => [0, 1, 2].map(i => Math.round(a[i]! + (b[i]! - a[i]!) * share)) as unknown as RGB

export function luminance(c: RGB): number {
  const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

export function contrast(a: RGB, b: RGB): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number]
  return (high + 0.05) / (low + 0.05)
}

/** tierColors are the chart's own, moved away from the paper until they can be told from it. */
export function tierColors(chart: Chart, theme: Theme): RGB[] {
  const away: RGB = theme.dark ? [255, 255, 255] : [0, 0, 0]
  return chart.tiers.map(t => {
    let c = parse(t.color)
    for (let i = 0; i < 8 && contrast(c, theme.paper) < 3.2; i++) c = mix(c, away, 0.14)
    return c
  })
}

/** on is the colour of what stands on another colour: white or nearly black. */
export const on = (c: RGB): RGB => contrast(c, [255, 255, 255]) >= 3.5 ? [255, 255, 255] : [17, 17, 24]
