// Two people want one seat.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeEvent } from './lib/demo.mjs'
import { phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

test('the one who is later hears it, with seats instead, and takes those', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}, { lang: 'zh-Hant', size: phone }], async (first, second) => {
    for (const p of [first, second]) {
      await p.signIn(`/events/${event.id}`)
      await p.openSeats(event)
      await p.seat('A-3').click()
    }
    // The second press is on its way while the first is decided.
    let leave = null, go = null
    const left = new Promise(resolve => (leave = resolve)), decided = new Promise(resolve => (go = resolve))
    await second.page.route(`**/v1/events/${event.id}/holds`, async route => {
      if (route.request().method() === 'POST') {
        leave()
        await decided
      }
      await route.continue()
    })
    await second.button(second.t('hold')).click()
    await left
    await first.button(first.t('hold')).click()
    await first.page.getByRole('heading', { name: first.t('yourHolds') }).waitFor()
    go()
    await second.page.getByText(second.t('taken.title')).waitFor()
    await second.accessible()
    await second.fits()
    await second.button(second.t('taken.take')).click()
    await second.page.getByRole('heading', { name: second.t('yourHolds') }).waitFor()
    const holds = await Promise.all([first, second].map(async p => (await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds))
    assert.deepEqual(holds[0].flatMap(h => h.seats.map(x => x.seatId)), ['A-3'])
    assert.equal(holds[1].length, 1)
    assert.ok(holds[1][0].seats.every(x => x.seatId !== 'A-3'))
  })
})

test('a seat that goes while one looks is shown as gone', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}, {}], async (first, second) => {
    for (const p of [first, second]) {
      await p.signIn(`/events/${event.id}`)
      await p.openSeats(event)
      await p.seat('B-2').waitFor()
    }
    await first.hold('B-2')
    await second.page.locator('[data-seat="B-2"][disabled]').waitFor()
    await first.button(first.t('release')).click()
    await first.page.getByRole('dialog').getByRole('button', { name: first.t('release'), exact: true }).click()
    await second.page.locator('[data-seat="B-2"]:not([disabled])').waitFor()
  })
})
