#!/usr/bin/env node
// Takes the pictures of README and docs/screens.md: a demo with a crowd, seen in the
// system's Chromium. Run it by `make screenshots`, and look at each picture.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { deflateSync, inflateSync } from 'node:zlib'
import { admin, patience, root, startDemo } from '../web/test/browser/lib/demo.mjs'
import { cards, desktop, openBrowser, Person, phone } from '../web/test/browser/lib/people.mjs'

const out = path.join(root, 'docs', 'screens')
// Enough of the arena is sold to look like a sale.
const enough = 400

/** smaller packs a PNG as tightly as zlib can: a browser packs in a hurry. */
function smaller(png) {
  const chunks = []
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at)
    chunks.push({ type: png.toString('latin1', at + 4, at + 8), whole: png.subarray(at, at + 12 + length), data: png.subarray(at + 8, at + 8 + length) })
    at += 12 + length
  }
  const pixels = deflateSync(inflateSync(Buffer.concat(chunks.filter(c => c.type === 'IDAT').map(c => c.data))), { level: 9, memLevel: 9 })
  const body = Buffer.concat([Buffer.from('IDAT', 'latin1'), pixels])
  const packed = Buffer.concat([uint32(pixels.length), body, uint32(crc(body))])
  const first = chunks.findIndex(c => c.type === 'IDAT')
  const kept = chunks.flatMap((c, i) => (i === first ? [packed] : c.type === 'IDAT' ? [] : [c.whole]))
  return Buffer.concat([png.subarray(0, 8), ...kept])
}

function uint32(n) {
  const b = Buffer.alloc(4)
  b.writeUInt32BE(n)
  return b
}

function crc(bytes) {
  let c = ~0
  for (const b of bytes) {
    c ^= b
    for (let k = 0; k < 8; k++) c = (c >>> 1) ^ (c & 1 ? 0xedb88320 : 0)
  }
  return ~c >>> 0
}

const demo = await startDemo('--crowd', '150', '--crowd-speed', '8')
const browser = await openBrowser()
const arena = demo.events[0].eventId
const [club] = demo.events.filter(e => e.seats > 0 && !e.queue).map(e => e.eventId)
let taken = 0

/** shot takes the picture of what is in sight. */
async function shot(p, name) {
  await p.page.mouse.move(0, 0)
  await p.page.evaluate(() => document.fonts.ready)
  await writeFile(path.join(out, `${name}.png`), smaller(await p.page.screenshot({ animations: 'disabled', caret: 'initial' })))
  process.stderr.write(`screenshots: ${name}\n`)
  taken++
}

/** look lets a person do something and sees them out. */
async function look(options, fn) {
  const p = await Person.enter(browser, demo, options)
  await fn(p)
  await p.leave()
}

/** until waits for something about the sale. */
async function until(what, fn) {
  for (const end = Date.now() + patience * 4; Date.now() < end; await new Promise(r => setTimeout(r, 500))) if (await fn()) return
  throw new Error(`it never came: ${what}`)
}

const live = () => admin(demo, 'GET', `/v1/admin/events/${arena}/live`)
const rate = perSecond => admin(demo, 'PATCH', `/v1/admin/events/${arena}/queue`, { ratePerSecond: perSecond, message: perSecond < 10 ? 'Doors open at 18:30. 18:30 開放入場。' : '', reason: 'pictures' })

async function pictures() {
  await until('a sale', async () => {
    const sums = JSON.stringify(await live())
    return [...sums.matchAll(/"sold":(\d+)/g)].reduce((n, m) => n + Number(m[1]), 0) >= enough
  })
  for (const [look1, name] of [[{ size: phone }, 'home-phone-en'], [{ lang: 'zh-Hant' }, 'home-desktop-zh']]) {
    await look(look1, async p => {
      await p.go(`/?lang=${p.lang}`)
      await shot(p, name)
      await p.go(`/events/${arena}?lang=${p.lang}`)
      await p.link(p.t('joinQueue')).waitFor()
      await shot(p, name.replace('home', 'event'))
    })
  }
  // A slow door makes a line, and one of the shots is of the line.
  await rate(1)
  const inside = async (p, name) => {
    await p.signIn(`/events/${arena}`)
    await p.go(`/events/${arena}/queue?lang=${p.lang}`)
    await p.button(p.own.join).click()
    await p.page.getByText(p.own.ahead).or(p.link(p.own.enter)).first().waitFor()
    if (name) await shot(p, name)
    await rate(20)
    await p.link(p.own.enter).click()
    await p.button(p.t('asMap')).waitFor()
    await p.page.waitForFunction(() => performance.getEntriesByName('seats:painted').length > 0)
    await p.page.getByText(p.t('sale.unavailable')).waitFor({ state: 'hidden', timeout: patience })
  }
  await look({}, async p => {
    await inside(p, 'waiting-desktop-en')
    await shot(p, 'seats-desktop-en')
  })
  await rate(1)
  await look({ lang: 'zh-Hant', size: phone }, async p => {
    await inside(p, 'waiting-phone-zh')
    await shot(p, 'seats-phone-zh')
  })
  await look({ size: phone, dark: true }, async p => {
    await inside(p, '')
    await shot(p, 'seats-phone-dark')
  })
  await look({ size: phone }, async p => {
    await p.signIn(`/events/${club}`)
    await p.go(`/events/${club}/seats?lang=en`)
    await p.button(p.t('holdBest')).click()
    await p.page.getByRole('heading', { name: p.t('yourHolds') }).waitFor()
    await p.toCard()
    await shot(p, 'card-phone-en')
    await p.payBy(cards.declined)
    await p.orderShows('declined')
    await shot(p, 'order-phone-en')
    await p.link(p.t('tryOther')).click()
    await p.payBy(cards.approved)
    const order = await p.orderShows('tickets')
    await p.page.getByRole('img', { name: /QR/ }).first().scrollIntoViewIfNeeded()
    await shot(p, 'tickets-phone-en')
    await p.page.setViewportSize(desktop)
    await p.go(`/orders/${order}?lang=zh-Hant`)
    await p.page.getByRole('img', { name: /QR/ }).first().waitFor()
    await shot(p, 'tickets-desktop-zh')
    const { tickets } = (await p.call('GET', `/v1/orders/${order}/tickets`)).body
    await gate(tickets[0].code)
  })
  await look({}, async p => {
    await p.go('/desk?lang=en')
    await p.page.getByLabel(p.t('desk.key')).fill(demo.adminToken)
    await p.page.getByLabel(p.t('desk.key')).press('Enter')
    await p.page.getByText(demo.events[0].name).first().waitFor()
    await p.page.evaluate(hash => (location.hash = hash), arena)
    await p.page.getByText(p.t('live.people'), { exact: true }).waitFor()
    // The plots need some time to plot.
    await until('a plot', async () => (await p.page.locator('canvas').count()) > 0)
    const began = Date.now()
    await until('some figures', () => Date.now() - began > 20_000)
    await shot(p, 'operator-desktop-en')
  })
}

/** gate shows a ticket twice. */
async function gate(code) {
  await look({ size: phone }, async p => {
    const credential = demo.events.find(e => e.eventId === club).deviceCredential
    await p.go('/scan?lang=en')
    await p.page.getByLabel(p.t('scan.credential')).fill(credential)
    await p.button(p.t('scan.begin')).click()
    await p.page.getByLabel(p.t('scan.manual')).fill(code)
    await shot(p, 'scan-phone-en')
    await p.button(p.t('scan.check')).click()
    await p.page.getByRole('heading', { name: p.t('scan.admit') }).waitFor()
    await shot(p, 'scan-admitted-phone-en')
    await p.page.getByRole('heading', { name: p.t('scan.admit') }).waitFor({ state: 'hidden' })
    await p.page.getByLabel(p.t('scan.manual')).fill(code)
    await p.button(p.t('scan.check')).click()
    await p.page.getByRole('heading', { name: p.t('scan.refuse') }).waitFor()
    await shot(p, 'scan-refused-phone-en')
  })
}

try {
  await rm(out, { recursive: true, force: true })
  await mkdir(out, { recursive: true })
  await pictures()
  process.stderr.write(`screenshots: ${taken} pictures in ${path.relative(process.cwd(), out)}\n`)
} finally {
  await browser.close()
  await demo.stop()
}
