// Every page, in both languages, on a phone and on a desk, light and dark: axe finds
// nothing, nothing is wider than the screen, and no page complains.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeEvent } from './lib/demo.mjs'
import { cards, desktop, phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

const looks = [
  { lang: 'en', size: phone }, { lang: 'zh-Hant', size: desktop },
  { lang: 'en', size: desktop, dark: true }, { lang: 'zh-Hant', size: phone, dark: true }
]

for (const look of looks) {
  const title = `${look.lang}, ${look.size.width} px${look.dark ? ', dark' : ''}`
  test(`buyer's pages: ${title}`, async () => {
    const event = await makeEvent(s.demo, { standing: 20 })
    const queued = await makeEvent(s.demo, { queue: true, rate: 0.001 })
    await withPeople(s, [look], async p => {
      const { page } = p
      const well = async () => {
        await p.accessible()
        await p.fits()
      }
      const open = async (path, sign) => {
        await p.go(`${path}?lang=${p.lang}`)
        await sign.waitFor()
        await well()
      }
      await open('/', page.getByRole('link', { name: event.name }).first())
      await open(`/events/${event.id}`, p.link(p.t('choosePlaces')))
      await open('/sign-in', p.button(p.t('sendCode')))
      await open('/nothing-here', page.getByRole('heading', { name: p.t('notFound'), level: 1 }))
      await open('/events/evt_99999/queue', page.getByRole('heading', { name: p.own.missing, level: 1 }))
      await p.link(p.own.toEvents).waitFor()
      await open(`/events/${event.id}/queue`, p.link(p.own.toEvent))
      await page.getByText(p.own.missingWhy).waitFor()
      await open(`/events/${queued.id}/queue`, page.getByRole('heading', { level: 1 }))
      await p.signIn(`/events/${event.id}`)
      await open('/orders', page.getByText(p.t('nothingYours')))
      await open(`/events/${queued.id}/queue`, p.button(p.own.join))
      await p.button(p.own.join).click()
      await page.getByText(p.own.ahead).waitFor()
      await well()
      await open(`/events/${event.id}/seats`, p.button(p.t('asList')))
      await p.openSeats(event)
      await p.seat('A-1').waitFor()
      await well()
      await p.hold('A-1')
      await well()
      await open('/orders', p.link(p.t('goOnPaying')))
      await p.link(p.t('goOnPaying')).click()
      await p.toCard()
      await well()
      await p.payBy(cards.challenge)
      await p.button(p.own.approve).waitFor()
      await well()
      await p.button(p.own.approve).click()
      await p.orderShows('tickets')
      await well()
      await open('/orders', page.getByRole('link', { name: p.t('openOrder') }))
      await open('/problems', page.getByRole('heading', { level: 1 }))
    })
  })

  test(`pages of stewards and operators: ${title}`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [look], async p => {
      const { page } = p
      await p.go(`/scan?lang=${p.lang}`)
      await page.getByLabel(p.t('scan.credential')).waitFor()
      await p.accessible()
      await p.fits()
      await page.getByLabel(p.t('scan.credential')).fill(event.gate)
      await p.button(p.t('scan.begin')).click()
      await page.getByLabel(p.t('scan.manual')).waitFor()
      await p.accessible()
      await p.fits()
      await p.go(`/desk?lang=${p.lang}`)
      await page.getByLabel(p.t('desk.key')).waitFor()
      await p.accessible()
      await p.fits()
      await page.getByLabel(p.t('desk.key')).fill(s.demo.adminToken)
      await page.getByRole('main').getByRole('button').first().click()
      await page.getByText(event.name).first().waitFor()
      await p.accessible()
      await p.fits()
      for (const part of ['new', 'lookup', 'log', 'audit', event.id, `${event.id}/places`, `${event.id}/gates`, `${event.id}/log`]) {
        await page.evaluate(hash => (location.hash = hash), part)
        await page.getByRole('main').getByRole('heading').first().waitFor()
        await p.accessible()
        await p.fits()
      }
    })
  })
}

test("an event's page looks now and then, whether answers come or not", async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}, {}], async (p, other) => {
    p.expected.push(/ERR_INTERNET_DISCONNECTED/)
    await p.signIn(`/events/${event.id}`)
    await p.link(p.t('choosePlaces')).waitFor()
    const asked = []
    p.page.on('request', r => asked.push(r.url()))
    // Time for many looks, were nothing waited for.
    const meanwhile = async () => {
      for (let i = 0; i < 20; i++) await other.call('GET', `/v1/events/${event.id}`)
    }
    await meanwhile()
    await p.context.setOffline(true)
    await meanwhile()
    await p.context.setOffline(false)
    await meanwhile()
    // The connection that comes back is a reason: for the event, holds and orders, once.
    assert.ok(asked.length <= 8, `asked ${asked.length} times: ${[...new Set(asked)].join(', ')}`)
  })
})
