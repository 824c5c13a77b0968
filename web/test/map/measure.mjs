// Measures the map in headless Chromium without a GPU: first picture, panning, and
// frames of changes. Run it from web/:
//   node test/map/measure.mjs [--seats 50000] [--phone] [--chart URL] [--shots FOLDER] [--json]
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { chromium } from 'playwright-core'
import { build, runnerImport } from 'vite'

const { values: asked } = parseArgs({ options: {
  seats: { type: 'string', default: '50000' }, phone: { type: 'boolean' }, chart: { type: 'string' }, shots: { type: 'string' }, json: { type: 'boolean' },
  browser: { type: 'string', default: process.env.CHROMIUM ?? '/usr/bin/chromium' }
} })
const here = fileURLToPath(new URL('.', import.meta.url))

async function chartBody() {
  if (asked.chart) return (await fetch(asked.chart)).text()
  const { module } = await runnerImport(join(here, 'hall.ts'), { configFile: false, logLevel: 'error' })
  return JSON.stringify(module.hall(Number(asked.seats)))
}

// A third held or sold, evenly: the hardest picture for the dense layer.
function snapshotOf(count) {
  const bytes = Buffer.alloc((count + 3) >> 2)
  for (let i = 0; i < count; i++) bytes[i >> 2] |= [0, 0, 0, 0, 1, 2][(i * 7919) % 6] << (6 - 2 * (i & 3))
  return JSON.stringify({ chart: 'c', count, seq: 1, lapse: 1, live: true, states: bytes.toString('base64') })
}

const quantile = (list, q) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))]
const round = n => Math.round(n * 100) / 100
const summary = list => ({ n: list.length, median: round(quantile(list, 0.5)), p99: round(quantile(list, 0.99)), max: round(Math.max(...list)) })

const folder = await mkdtemp(join(tmpdir(), 'usher-map-'))
await build({ configFile: false, root: here, base: './', logLevel: 'error', build: { outDir: folder, emptyOutDir: true, target: 'es2022', rolldownOptions: { input: join(here, 'measure.html') } } })
const chart = await chartBody()
const count = JSON.parse(chart).sections.reduce((n, s) => n + s.rows.reduce((m, r) => m + r.seats.length, 0), 0)
const made = { '/chart.json': gzipSync(chart), '/seats.json': gzipSync(snapshotOf(count)) }
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' }
const server = createServer(async (request, answer) => {
  const path = new URL(request.url, 'http://localhost').pathname
  answer.setHeader('Content-Type', types[extname(path)] ?? 'text/plain')
  if (made[path]) return answer.setHeader('Content-Encoding', 'gzip').end(made[path])
  answer.end(await readFile(join(folder, path)).catch(() => ''))
})
await new Promise(done => server.listen(0, '127.0.0.1', done))

const size = asked.phone ? { width: 390, height: 600 } : { width: 1280, height: 800 }
const browser = await chromium.launch({
  executablePath: asked.browser,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
})
try {
  const page = await browser.newPage({ viewport: size, deviceScaleFactor: asked.phone ? 2 : 1 })
  const shot = name => asked.shots && page.screenshot({ path: join(asked.shots, `${asked.phone ? 'phone' : 'desk'}-${name}.png`) })
  const report = { seats: count, width: size.width, height: size.height }
  const first = []
  for (let i = 0; i < 5; i++) {
    await page.goto(`http://127.0.0.1:${server.address().port}/measure.html`)
    await page.waitForFunction(() => window.measure)
    first.push(await page.evaluate(() => window.measure.painted()))
  }
  report.firstPaintMs = summary(first)
  await shot('whole')
  const pan = async () => {
    await page.evaluate(() => window.measure.begin())
    for (const turn of [1, -1, 1, -1]) {
      await page.mouse.move(size.width / 2 + turn * size.width * 0.3, size.height / 2)
      await page.mouse.down()
      await page.mouse.move(size.width / 2 - turn * size.width * 0.3, size.height / 2 + turn * 60, { steps: 40 })
      // Held for a moment, so that the map is not thrown out of the way measured.
      await page.waitForTimeout(120)
      await page.mouse.up()
    }
    const gaps = await page.evaluate(() => window.measure.end())
    return { ...summary(gaps), over50: gaps.filter(g => g > 50).length }
  }
  for (const [name, factor] of [['whole', 1], ['sections', 3], ['seats', 4]]) {
    await page.evaluate(f => window.measure.zoom(f), factor)
    await page.waitForTimeout(1500)
    await shot(name)
    report[`pan ${name}, new tiles`] = await pan()
    report[`pan ${name}, cached tiles`] = await pan()
    report[`200 changes ${name}`] = summary(await page.evaluate(() => window.measure.frames(100, 200)))
    await page.evaluate(() => window.measure.begin())
    await page.evaluate(() => window.measure.frames(40, 200))
    const gaps = await page.evaluate(() => window.measure.end())
    report[`200 changes ${name}, screen frames`] = { ...summary(gaps), over50: gaps.filter(g => g > 50).length }
  }
  if (asked.json) console.log(JSON.stringify(report))
  else for (const [name, value] of Object.entries(report)) console.log(name.padEnd(40), typeof value === 'object' ? Object.entries(value).map(([k, v]) => `${k} ${v}`).join('  ') : value)
} finally {
  await browser.close()
  server.close()
  await rm(folder, { recursive: true })
}
