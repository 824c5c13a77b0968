// P87, P91, P95: what people and organisers write, shown whole and harmless on every
// page and in mails; and ids that no number may hold.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { admin, makeEvent, mailTo } from './lib/demo.mjs'
import { cards, desktop, phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

const names = {
  markup: '<script>document.title="ran"</script><img src=x onerror=document.title="ran"> & "quotes" </h1>',
  'right to left': 'ليلة الموسيقى 2030 עם 12 נגנים',
  'rare Han': '𠮷野家の夜 𡃁 𪚥 龘靐 🎻',
  'two hundred characters': 'Nacht'.repeat(40)
}

for (const [kind, name] of Object.entries(names)) {
  test(`a name: ${kind}`, async () => {
    const event = await makeEvent(s.demo, { name, venue: `${name.slice(0, 60)} hall`, standing: 10, tierName: name.slice(0, 60) })
    await withPeople(s, [{ size: phone }], async p => {
      const { page } = p
      // shows looks for the text as a reader does, and that nothing of it ran.
      const shows = async () => {
        await page.getByText(name, { exact: false }).first().waitFor()
        assert.doesNotMatch(await page.title(), /^ran/)
        assert.equal(await page.locator('img[src="x"]').count(), 0)
        await p.fits()
      }
      await p.go('/?lang=en')
      await shows()
      await p.signIn(`/events/${event.id}`)
      await shows()
      await p.accessible()
      await p.openSeats(event)
      await page.getByRole('heading', { level: 1 }).filter({ hasText: name }).waitFor()
      await page.getByText(name.slice(0, 60)).first().waitFor()
      await p.hold('A-1')
      await shows()
      await p.go('/orders?lang=en')
      await shows()
      await p.link(p.t('goOnPaying')).click()
      await p.toCard()
      await p.payBy(cards.approved)
      await p.orderShows('tickets')
      await shows()
      await p.accessible()
      await p.go('/orders?lang=en')
      await shows()
      await checkMail(p, name)
    })
  })
}

/** checkMail opens the mail with the tickets on the mail catcher's page. */
async function checkMail(p, name) {
  const mail = await mailTo(s.demo, p.email, Number(p.codeMail.id))
  assert.ok(mail.text.includes(name), `the mail has the name whole: ${mail.text}`)
  await p.page.goto(`${s.demo.mailUrl}/m/${mail.id}`)
  await p.page.frameLocator('iframe').getByText(name).first().waitFor()
  assert.doesNotMatch(await p.page.title(), /^ran/)
}

test('the desk shows every such name, too', async () => {
  const events = []
  for (const name of Object.values(names)) events.push(await makeEvent(s.demo, { name }))
  await withPeople(s, [{ size: desktop }], async p => {
    await p.go('/desk?lang=en')
    await p.page.getByLabel(p.t('desk.key')).fill(s.demo.adminToken)
    await p.page.getByRole('main').getByRole('button').first().click()
    for (const e of events) await p.page.getByText(e.name).first().waitFor()
    assert.doesNotMatch(await p.page.title(), /^ran/)
    await p.accessible()
    await p.fits()
  })
})

test('P91: seats whose ids are numbers beyond what a number holds', async () => {
  const seats = ['9007199254740992', '9007199254740993', '9007199254740994', '9007199254740995']
  const event = await makeEvent(s.demo, { seats })
  await withPeople(s, [{}], async p => {
    await p.takeToCard(event, seats[1], seats[3])
    await p.payBy(cards.approved)
    const order = await p.orderShows('tickets')
    const { tickets } = (await p.call('GET', `/v1/orders/${order}/tickets`)).body
    assert.deepEqual(tickets.map(k => k.seatId).sort(), [seats[1], seats[3]])
    const seen = await admin(s.demo, 'GET', `/v1/admin/orders/${order}`)
    assert.ok(JSON.stringify(seen).includes(order), 'the order is found by the id in the address')
  })
})
