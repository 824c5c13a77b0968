// The page that measure.mjs looks at: the map alone, fed as the seats page feeds it.
import { Chart, type ChartFile } from '../../src/map/chart'
import { Picture, type Snapshot } from '../../src/map/picture'
import { SeatView } from '../../src/map/seatview'

const canvas = document.querySelector('canvas')!
const [file, snapshot] = await Promise.all([
  fetch('chart.json').then(r => r.json() as Promise<ChartFile>),
  fetch('seats.json').then(r => r.json() as Promise<Snapshot>)
])
const chart = new Chart(file)
let view: SeatView | null = null
const picture = new Picture(changed => view?.setStates(picture.states, changed))
picture.take(snapshot)
const painted = new Promise<number>(done => {
  view = new SeatView(canvas, chart, picture.states, {
    pick() {}, point() {}, moved() {}, themed() {},
    painted: () => done(performance.now())
  })
})

let gaps: number[] | null = null, last = 0
function watch(now: number): void {
  if (gaps && last) gaps.push(now - last)
  last = now
  requestAnimationFrame(watch)
}
requestAnimationFrame(watch)

/** frames applies frames of so many changes, one per 50 ms, and returns what each took, in ms. */
async function frames(rounds: number, changes: number): Promise<number[]> {
  const took: number[] = []
  for (let round = 0; round < rounds; round++) {
    const list = new Map<number, number>()
    while (list.size < changes) {
      const i = Math.floor(Math.random() * chart.count)
      list.set(i, (picture.states[i]! + 1) % 3)
    }
    const f = { from: picture.seq, to: picture.seq + changes, lapseFrom: 0, lapse: picture.lapse, live: true, changes: [...list] }
    const start = performance.now()
    picture.frame(f)
    took.push(performance.now() - start)
    await new Promise(done => setTimeout(done, 50))
  }
  return took
}

Object.assign(window, {
  measure: {
    painted: () => painted,
    zoom: (factor: number) => view!.zoomStep(factor),
    begin: () => { gaps = [] },
    end: () => { const g = gaps; gaps = null; return g },
    frames
  }
})
