// A hall of any size for tests and measurements: three rings of sections around a
// stage, as large halls are built.
import type { ChartFile } from '../../src/map/chart'

export function hall(seats: number): ChartFile {
  const tiers = [
    { id: 'floor', name: 'Floor', color: '#b91c1c' }, { id: 'lower', name: 'Lower', color: '#c2410c' },
    { id: 'middle', name: 'Middle', color: '#1d4ed8' }, { id: 'upper', name: 'Upper', color: '#0f766e' }
  ]
  const file: ChartFile = {
    name: 'Hall', tiers, sections: [],
    decorations: [{ shape: 'rectangle', x: -300, y: -480, width: 600, height: 150, color: '#1f2937', text: 'STAGE' }]
  }
  let left = seats
  for (let ring = 0; left > 0; ring++) {
    const wedges = 12 + 4 * ring
    for (let wedge = 0; wedge < wedges && left > 0; wedge++) {
      const rows: ChartFile['sections'][number]['rows'] = []
      for (let r = 0; r < 28 && left > 0; r++) {
        const radius = 380 + ring * 370 + r * 12, part = 1.7 * Math.PI / wedges
        const places = Math.min(left, Math.floor((radius * part - 16) / 10))
        rows.push({
          label: String(r + 1),
          seats: Array.from({ length: places }, (_, i) => {
            const angle = -0.35 * Math.PI + part * wedge + (i + 0.8) * 10 / radius
            return { id: `${ring}${wedge}-${r}-${i}`, label: String(i + 1), x: radius * Math.cos(angle), y: radius * Math.sin(angle), tier: tiers[Math.min(ring, 3)]!.id }
          })
        })
        left -= places
      }
      file.sections.push({ name: String(100 * (ring + 1) + wedge + 1), rows })
    }
  }
  return file
}
