// Leaving the queue has worked only when the server says so.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeEvent } from './lib/demo.mjs'
import { phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

for (const lang of ['en', 'zh-Hant']) {
  test(`leaving without an answer (${lang})`, async () => {
    const event = await makeEvent(s.demo, { queue: true, rate: 0.001 })
    await withPeople(s, [{ lang, size: phone }], async p => {
      const { page, own } = p
      p.expected.push(/ERR_INTERNET_DISCONNECTED|ERR_FAILED/)
      const me = `/v1/events/${event.id}/queue/me`
      const leave = async () => {
        await p.button(own.leave).click()
        await page.getByRole('dialog').getByRole('button', { name: own.leave }).click()
      }
      await p.signIn(`/events/${event.id}/queue?lang=${lang}`)
      // Nothing is kept yet, and nobody asks again but whoever pressed.
      await p.context.setOffline(true)
      await p.button(own.join).click()
      await page.getByText(own.noAnswer).waitFor()
      await p.context.setOffline(false)
      await p.button(own.join).click()
      await page.getByText(own.ahead).waitFor()
      await page.getByText(own.noAnswer).waitFor({ state: 'hidden' })
      const before = (await p.call('GET', me)).body

      // Nothing was heard, so nothing was left.
      await p.context.setOffline(true)
      await leave()
      await page.getByText(own.leaving).waitFor()
      assert.ok(await page.getByText(own.ahead).isVisible())
      await p.accessible()
      await p.fits()
      await p.context.setOffline(false)
      await page.getByText(own.stayed).waitFor()
      const after = (await p.call('GET', me)).body
      assert.deepEqual([after.status, after.bucket, after.joinedAt], [before.status, before.bucket, before.joinedAt])

      // The server did hear it; only its answer was lost.
      await page.route('**/queue', async r => {
        if (r.request().method() !== 'DELETE') return r.continue()
        await r.fetch()
        await r.abort()
      })
      await leave()
      await page.getByText(own.left).waitFor()
      await page.getByText(own.leaving).waitFor({ state: 'hidden' })
      await p.button(own.rejoin).waitFor()
      // The button that was pressed is gone: what it did is where the keyboard goes on.
      assert.equal(await page.evaluate(() => document.activeElement?.id), 'place')
    })
  })
}

test('a long wait is told in hours, and a reload does not set the bar back', async () => {
  const event = await makeEvent(s.demo, { queue: true, rate: 0.001 })
  await withPeople(s, [{ size: phone }], async p => {
    const { page, own } = p
    let ahead = 7199
    await page.route('**/queue/now', async r => {
      const answer = await r.fetch()
      const me = (await p.call('GET', `/v1/events/${event.id}/queue/me`)).body
      await r.fulfill({ response: answer, json: { ...(await answer.json()), ...(me.number != null && { serving: me.number - ahead, admitting: true, rate: 1 }) } })
    })
    await p.signIn(`/events/${event.id}/queue`)
    await p.button(own.join).click()
    await page.getByText(`2 ${own.hours} 0 ${own.minutes}`).waitFor()
    ahead = 3599
    await page.reload()
    await page.getByText(`60 ${own.minutes}`).waitFor()
    assert.equal(await page.locator('#bar').evaluate(bar => bar.value), 1 - 3599 / 7200)
  })
})
