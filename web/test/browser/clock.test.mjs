// P16: countdowns show the server's time, whatever the device's clock says.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeEvent } from './lib/demo.mjs'
import { cards } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()
const hour = 3_600_000

/** left reads a countdown, in seconds. */
async function left(page) {
  const [minutes, seconds] = /(\d+):(\d\d)/.exec(await page.locator('.countdown .face').first().innerText()).slice(1).map(Number)
  return minutes * 60 + seconds
}

/** truth is what the server says, read before and after the page: it must lie between. */
async function agrees(p, path) {
  const ask = async () => {
    const { expiresAt, serverTime } = (await p.call('GET', path)).body
    return (Date.parse(expiresAt) - Date.parse(serverTime)) / 1000
  }
  const before = await ask()
  const shown = await left(p.page)
  const after = await ask()
  assert.ok(shown <= before + 2 && shown >= after - 2, `the page shows ${shown} s, the server says ${before} to ${after} s`)
}

for (const [name, off] of [['an hour ahead', hour], ['an hour behind', -hour]]) {
  test(`P16: a clock ${name}`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [{}], async p => {
      await p.page.clock.install({ time: Date.now() + off })
      await p.signIn(`/events/${event.id}`)
      await p.openSeats(event)
      await p.hold('A-1')
      const { holdId } = (await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds[0]
      await agrees(p, `/v1/holds/${holdId}`)
      await p.page.reload()
      await p.page.getByRole('heading', { name: p.t('yourHolds') }).waitFor()
      await agrees(p, `/v1/holds/${holdId}`)
      await p.go(`/orders?lang=${p.lang}`)
      await p.page.locator('.countdown').first().waitFor()
      await agrees(p, `/v1/holds/${holdId}`)
      await p.link(p.t('goOnPaying')).click()
      await p.toCard()
      await p.payBy(cards.approved)
      await p.orderShows('tickets')
    })
  })
}

test('P16: an answer out of a cache, with an old Date, does not set a countdown back', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.hold('A-1')
    const { holdId } = (await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds[0]
    const path = `/v1/events/${event.id}`
    let answered = 0
    await p.page.route(u => u.pathname === path, async route => {
      const response = await route.fetch()
      await route.fulfill({ response, headers: { ...response.headers(), date: new Date(Date.now() - 107_000).toUTCString() } })
      answered++
    })
    // What a page does when it is shown again: it asks for the hold, then for the event.
    const seen = p.page.waitForResponse(r => new URL(r.url()).pathname === path)
    await p.page.evaluate(() => dispatchEvent(new Event('online')))
    await (await seen).finished()
    const face = '.countdown .face'
    await p.page.waitForFunction(([face, was]) => document.querySelector(face).innerText !== was, [face, await p.page.locator(face).innerText()])
    await agrees(p, `/v1/holds/${holdId}`)
    assert.ok(answered > 0)
  })
})

test('P16: a countdown that ends asks the server, and goes on where more time is left', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    const { page } = p
    await page.clock.install()
    await p.takeToCard(event, 'A-1')
    await p.payBy(cards.declined)
    const order = await p.orderShows('declined')
    const asked = []
    page.on('request', r => r.url().endsWith(order) && asked.push(r.url()))
    // The device counts too fast: the time to pay is over, as far as it knows.
    await page.clock.fastForward(400_000)
    await page.waitForFunction(() => !/^0:/.test(document.querySelector('.countdown .face').innerText))
    await agrees(p, `/v1/orders/${order}`)
    assert.ok(asked.length > 0 && asked.length < 5, `asked ${asked.length} times`)
  })
})

test('P16: the end of a hold comes by the server, and the page says so', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    await p.page.clock.install({ time: Date.now() - hour })
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.hold('A-1')
    // Somebody sets the device's clock while the page is open.
    await p.page.clock.setSystemTime(Date.now() + 5 * hour)
    const { holdId } = (await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds[0]
    await p.page.clock.runFor(5_000)
    await p.page.getByRole('heading', { name: p.t('yourHolds') }).waitFor()
    assert.equal((await p.call('GET', `/v1/holds/${holdId}`)).body.status, 'held', 'a live hold is not dropped')
  })
})
