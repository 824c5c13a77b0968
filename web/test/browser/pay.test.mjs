// P46: whatever is pressed twice, reloaded or gone back to, a hold has one order and
// one charge.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { charges, makeEvent } from './lib/demo.mjs'
import { cards } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

/** onCard brings a new person with a hold to the card page, the card filled in. */
async function onCard(p, event) {
  await p.takeToCard(event, 'A-1')
  await p.fillCard(cards.approved)
}

/** paidOnce is what must be true after every way of pressing. */
async function paidOnce(p, event) {
  const orders = (await p.call('GET', `/v1/events/${event.id}/orders`)).body.orders
  assert.equal(orders.length, 1)
  assert.equal(orders[0].orderStatus, 'confirmed')
  const intents = await charges(s.demo, event.id)
  assert.equal(intents.length, 1, 'one payment at the provider')
  assert.deepEqual([intents[0].authorizations, intents[0].captures, intents[0].refunds], [1, 1, 0])
}

const ways = {
  'a double click on Pay and on the card': async p => {
    const { page } = p
    await page.goBack()
    await p.link(p.t('pay')).dblclick()
    await p.fillCard(cards.approved)
    await p.button(p.own.use).dblclick()
  },
  'Enter and a click in the same moment': async p => {
    await p.page.getByLabel(p.own.cvc).evaluate(input => {
      input.form.requestSubmit()
      input.form.querySelector('button').click()
    })
  },
  'a reload while the answer is on its way': async p => {
    let sent = null
    const once = new Promise(resolve => (sent = resolve))
    let first = true
    await p.page.route('**/checkout', async route => {
      if (!first) return route.continue()
      first = false
      // It reaches usher, and the answer is lost with the page.
      await route.fetch()
      sent()
      await route.abort().catch(() => {})
    })
    p.expected.push(/ERR_FAILED/)
    await p.button(p.own.use).click({ noWaitAfter: true })
    await once
    await p.page.reload()
  },
  'the answer is lost, and nobody does anything': async p => {
    let first = true
    await p.page.route('**/checkout', async route => {
      if (!first) return route.continue()
      first = false
      await route.fetch()
      await route.abort()
    })
    p.expected.push(/ERR_FAILED/)
    await p.button(p.own.use).click()
  },
  'back and once more': async p => {
    await p.button(p.own.use).click()
    await p.orderShows('tickets')
    await p.page.goBack()
    // What is shown leads to the order, be it by itself or by the card page again.
    const card = p.page.getByLabel(p.own.number)
    await card.or(p.page.getByText(p.t('head.tickets'))).first().waitFor()
    if (await card.isVisible()) await p.payBy(cards.approved)
  },
  'forward and back and a second tab': async p => {
    await p.button(p.own.use).click()
    await p.orderShows('tickets')
    const hold = (await p.call('GET', `/v1/orders/${p.page.url().split('/').pop()}`)).body.holdId
    const tab = await p.context.newPage()
    await tab.goto(`${s.demo.url}/pay/${hold}`)
    await tab.waitForURL(/\/orders\/ord_/)
    await tab.goto(`${s.demo.url}/pay/${hold}?payment_method=pm_card_visa`)
    await tab.waitForURL(/\/orders\/ord_/)
    await p.page.goBack()
    await p.page.goForward()
  },
  'the tab is closed, and another one opened': async p => {
    const sent = p.page.waitForResponse(r => r.url().endsWith('/checkout'))
    await p.button(p.own.use).click({ noWaitAfter: true })
    await sent
    await p.page.close()
    p.page = await p.context.newPage()
    await p.go('/orders')
    await p.page.getByRole('link', { name: p.t('openOrder') }).click()
  }
}

for (const [name, press] of Object.entries(ways)) {
  test(`P46: ${name}`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [{}], async p => {
      await onCard(p, event)
      await press(p)
      await p.orderShows('tickets')
      await paidOnce(p, event)
    })
  })
}

test('P46: the button of holding, pressed twice', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.seat('A-1').click()
    await p.button(p.t('hold')).dblclick()
    await p.page.getByRole('heading', { name: p.t('yourHolds') }).waitFor()
    assert.equal((await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds.length, 1)
    await p.page.reload()
    await p.page.getByRole('heading', { name: p.t('yourHolds') }).waitFor()
  })
})
