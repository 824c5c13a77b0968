// From the event to the ticket, and what can go another way at the bank.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { charges, mailTo, makeEvent } from './lib/demo.mjs'
import { cards, desktop, phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

test('a phone in Chinese: sign in, queue, reload while waiting, seats, ticket', async () => {
  const event = await makeEvent(s.demo, { name: '雨夜 Rainy Evening', queue: true, rate: 0.5 })
  // Somebody is ahead, so that there is something to wait for.
  const ahead = (await (await fetch(`${s.demo.url}/v1/admin/buyer-sessions`, {
    method: 'POST', headers: { Authorization: `Bearer ${s.demo.adminToken}`, 'Content-Type': 'application/json' }, body: '{"count":3}'
  })).json()).buyers
  for (const b of ahead) await fetch(`${s.demo.url}/v1/events/${event.id}/queue`, { method: 'POST', headers: { Authorization: `Bearer ${b.token}` } })
  await withPeople(s, [{ lang: 'zh-Hant', size: phone }], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.page.getByRole('heading', { name: event.name, level: 1 }).waitFor()
    await p.link(p.t('joinQueue')).click()
    await p.button(p.own.join).click()
    await p.page.getByText(p.own.ahead).waitFor()
    const place = (await p.call('GET', `/v1/events/${event.id}/queue/me`)).body
    await p.page.reload()
    await p.page.getByText(p.own.ahead).or(p.link(p.own.enter)).first().waitFor()
    assert.equal((await p.call('GET', `/v1/events/${event.id}/queue/me`)).body.number, place.number, 'a reload keeps the place')
    await p.link(p.own.enter).click()
    await p.page.getByRole('button', { name: p.t('asList'), exact: true }).click()
    await p.hold('A-2', 'A-3')
    await p.fits()
    await p.toCard()
    await p.payBy(cards.approved)
    const order = await p.orderShows('tickets')
    assert.match(order, /^ord_/)
    assert.equal(await p.page.getByRole('img', { name: /QR/ }).count(), 2)
    await p.fits()
  })
})

test('signing in at the queue: a mistyped address, then a second code', async () => {
  const event = await makeEvent(s.demo, { queue: true, rate: 20 })
  await withPeople(s, [{ size: phone }], async p => {
    const { page, own } = p
    await p.go(`/events/${event.id}/queue?lang=${p.lang}`)
    await page.getByLabel(own.email).fill(`mistyped-${p.email}`)
    await p.button(own.sendCode).click()
    await p.button(own.otherAddress).click()
    await page.getByLabel(own.email).fill(p.email)
    await p.button(own.sendCode).click()
    const first = await mailTo(s.demo, p.email)
    await p.button(own.sendAgain).click()
    const second = await mailTo(s.demo, p.email, Number(first.id))
    assert.equal(await page.getByLabel(own.email).inputValue(), p.email)
    await p.fits()
    await p.accessible()
    await page.getByLabel(own.code).fill(/\b\d{6}\b/.exec(second.text)[0])
    await p.button(own.signIn).click()
    await p.link(own.enter).waitFor()
  })
})

test('declined, then another card: one order, one charge', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{ size: desktop }], async p => {
    await p.takeToCard(event, 'A-1')
    await p.payBy(cards.declined)
    const first = await p.orderShows('declined')
    await p.accessible()
    await p.link(p.t('tryOther')).click()
    await p.payBy(cards.approved)
    assert.equal(await p.orderShows('tickets'), first, 'the same order goes on')
  })
  const paid = (await charges(s.demo, event.id)).filter(i => i.authorizations > 0)
  assert.deepEqual(paid.map(i => [i.authorizations, i.refunds, i.voids]), [[1, 0, 0]])
})

test('declined, then given back: nobody is said to have been late', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{ size: phone }], async p => {
    await p.takeToCard(event, 'A-1')
    await p.payBy(cards.declined)
    await p.orderShows('declined')
    await p.page.locator('#release').click()
    await p.page.getByRole('dialog').locator('button.danger').click()
    await p.orderShows('givenBack')
    await p.page.waitForFunction(() => document.activeElement.id === 'state')
    await p.accessible()
  })
})

for (const lang of ['en', 'zh-Hant']) {
  test(`the bank asks (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [{ lang, size: phone }], async p => {
      await p.takeToCard(event, 'B-1')
      await p.payBy(cards.challenge)
      await p.button(p.own.approve).click()
      await p.orderShows('tickets')
      assert.equal(new URL(p.page.url()).search, '', 'what the provider put into the address is gone')
    })
  })
}

test('whoever refuses at the bank has paid nothing and may try again', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    await p.takeToCard(event, 'B-1')
    await p.payBy(cards.challenge)
    await p.button(p.own.refuse).click()
    await p.orderShows('declined')
  })
  assert.equal((await charges(s.demo, event.id)).reduce((n, i) => n + i.captures, 0), 0)
})
