// At the desk: what is refused is said in the operator's language, and figures that are
// old are called so.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { admin, makeEvent } from './lib/demo.mjs'
import { cards, phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

/** enter signs in at the desk and goes to a place of it. */
async function enter(p, place) {
  await p.go(`/desk?lang=${p.lang}#${place}`)
  await p.page.getByLabel(p.t('desk.key')).fill(s.demo.adminToken)
  await p.page.getByRole('main').getByRole('button').first().click()
}

for (const lang of ['en', 'zh-Hant']) {
  test(`refusals are worded (${lang})`, async () => {
    const draft = await admin(s.demo, 'POST', '/v1/admin/events', { slug: `desk-${lang.toLowerCase()}`, name: 'Draft', venue: 'Hall', startsAt: '2030-03-01 20:00', timeZone: 'Asia/Taipei', currency: 'TWD', reason: 'browser test' })
    await withPeople(s, [{ lang, size: phone }], async p => {
      const { page, t } = p
      await enter(p, 'evt_99999')
      const alert = page.getByRole('alert')
      await alert.waitFor()
      assert.equal((await alert.innerText()).trim(), t('deny.not_found'))
      await page.evaluate(id => (location.hash = id), draft.event.eventId)
      await page.getByLabel(t('draft.file')).setInputFiles({ name: 'hall.csv', mimeType: 'text/csv', buffer: Buffer.from('seat_id,section\nA-1,Stalls\n') })
      await alert.getByText(t('deny.invalid_file')).waitFor()
      // The technical detail follows, marked as the English that it is.
      assert.match(await alert.locator('[lang=en]').innerText(), /row|column/i)
      await p.accessible()
      await p.fits()
    })
  })

  test(`what was done is told: seats that changed, why an order ended, lines of a message (${lang})`, async () => {
    const event = await makeEvent(s.demo, { queue: true, rate: 20 })
    await admin(s.demo, 'POST', `/v1/admin/events/${event.id}/seats/block`, { seatIds: ['A-1'], reason: 'browser test' })
    await withPeople(s, [{ lang, size: phone }], async p => {
      const { page, t } = p
      // confirm gives a reason as people type it, and waits until it is done.
      const confirm = async () => {
        const dialog = page.getByRole('dialog')
        await dialog.getByLabel(t('desk.reason')).fill('')
        await dialog.locator('button[type=submit]').click()
        await dialog.getByText(t('desk.reasonNeeded')).waitFor()
        await dialog.getByLabel(t('desk.reason')).fill('水'.repeat(300))
        await dialog.locator('button[type=submit]').click()
        await dialog.getByText(t('desk.reasonLong')).waitFor()
        await dialog.getByLabel(t('desk.reason')).fill('water\nin the hall')
        await dialog.locator('button[type=submit]').click()
        await dialog.waitFor({ state: 'hidden' })
        // The button may be gone: the focus is where it says what was done.
        await page.waitForFunction(() => document.activeElement?.classList.contains('said'))
      }
      await enter(p, `${event.id}/places`)
      await page.locator('#seats').fill('A-1 A-2')
      await p.button(t('places.block')).click()
      await confirm()
      const changed = page.getByRole('status').filter({ hasText: 'A-2' })
      await changed.getByText(t('places.blocked.one', { n: 1 })).waitFor()
      await changed.getByText(t('places.soBefore.one', { n: 1 })).waitFor()
      assert.doesNotMatch(await changed.innerText(), /A-1/)
      await p.accessible()
      await p.fits()

      await page.evaluate(id => (location.hash = id), event.id)
      await page.getByText(t('steer.queue')).click()
      await page.getByLabel(t('steer.message')).fill('One line\nand another')
      await p.button(t('steer.send')).click()
      await confirm()
      assert.equal((await admin(s.demo, 'GET', `/v1/admin/events/${event.id}`)).queue.message, 'One line\nand another')
    })
  })

  test(`why an order ended is worded (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [{ lang }, { lang, size: phone }], async (buyer, p) => {
      await buyer.takeToCard(event, 'A-1')
      await buyer.payBy(cards.approved)
      const order = await buyer.orderShows('tickets')
      await admin(s.demo, 'POST', `/v1/admin/orders/${order}/cancel`, { reason: 'browser test' })
      await enter(p, `lookup/${order}`)
      await p.page.getByText(p.t('closed.cancelled_by_staff')).waitFor()
      await buyer.page.reload()
      await buyer.orderShows('cancelled')
      await buyer.accessible()
    })
  })

  test(`one line says that there is no connection (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [{ lang, size: phone }], async p => {
      const { page, t } = p
      p.expected.push(/ERR_INTERNET_DISCONNECTED/)
      await enter(p, event.id)
      const sold = page.getByRole('heading', { name: t('live.sold') })
      const alert = page.getByRole('alert')
      await sold.waitFor()
      await p.context.setOffline(true)
      await alert.waitFor()
      assert.match(await alert.innerText(), p.like('desk.away'))
      // The figures stay, and the event's own looks add no line of theirs.
      await page.waitForEvent('requestfailed', r => r.url().endsWith(event.id))
      assert.equal(await alert.count(), 1)
      assert.ok(await sold.isVisible())
      await p.accessible()
      // A place that is opened meanwhile fills when the connection is back.
      await page.evaluate(id => (location.hash = `${id}/gates`), event.id)
      await page.waitForEvent('requestfailed', r => r.url().endsWith('/devices'))
      assert.equal(await alert.count(), 1)
      await p.context.setOffline(false)
      await page.getByText('Browser gate').waitFor()
      assert.equal(await alert.count(), 0)
    })
  })
}

// The plots are canvases: what they write is caught on its way.
test('times on the axis of a plot differ from the first look on', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    await p.context.addInitScript(() => {
      const { clearRect, fillText } = CanvasRenderingContext2D.prototype
      CanvasRenderingContext2D.prototype.clearRect = function (...area) {
        this.canvas.written = []
        return clearRect.apply(this, area)
      }
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        this.canvas.written?.push(text)
        return fillText.call(this, text, ...where)
      }
    })
    await enter(p, event.id)
    const plots = await p.page.waitForFunction(() => {
      const all = [...document.querySelectorAll('canvas')].map(c => c.written ?? [])
      return all.length && all.every(texts => texts.length) && all
    })
    for (const texts of await plots.jsonValue()) {
      const times = texts.filter(text => text.includes(':'))
      assert.ok(times.length > 1, texts.join())
      assert.equal(new Set(texts).size, texts.length, texts.join())
    }
  })
})
