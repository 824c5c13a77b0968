// At the gate: the first scan opens, the second is refused with the reason.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeEvent } from './lib/demo.mjs'
import { cards, phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

for (const lang of ['en', 'zh-Hant']) {
  test(`a ticket opens once (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    const other = await makeEvent(s.demo)
    await withPeople(s, [{ lang }, { lang, size: phone }], async (buyer, steward) => {
      await buyer.signIn(`/events/${event.id}`)
      await buyer.openSeats(event)
      await buyer.hold('A-1')
      await buyer.toCard()
      await buyer.payBy(cards.approved)
      const order = await buyer.orderShows('tickets')
      const { code } = (await buyer.call('GET', `/v1/orders/${order}/tickets`)).body.tickets[0]

      const { page, t } = steward
      const enterAt = async gate => {
        await steward.go(`/scan?lang=${lang}`)
        await page.getByLabel(t('scan.credential')).fill(gate)
        await steward.button(t('scan.begin')).click()
        await page.getByLabel(t('scan.manual')).waitFor()
      }
      const scan = async (text, heading) => {
        await page.getByLabel(t('scan.manual')).fill(text)
        await steward.button(t('scan.check')).click()
        const answer = page.getByRole('alert').filter({ has: page.getByRole('heading', { name: heading }) })
        await answer.waitFor()
        return answer
      }
      await enterAt(event.gate)
      // The gate names the seat as the ticket does.
      const admitted = await scan(code, t('scan.admit'))
      assert.deepEqual(await admitted.getByRole('definition').allInnerTexts(), ['Stalls', 'A', '1'])
      await steward.fits()
      await page.getByRole('alert').filter({ hasText: t('scan.admit') }).waitFor({ state: 'hidden' })
      const refused = await scan(code, t('scan.refuse'))
      await refused.getByText(steward.like('refused.usedAt')).waitFor()
      await steward.accessible()
      await steward.button(t('scan.next')).click()
      // A reload forgets nothing, and an unknown code is refused, too.
      await page.reload()
      await page.getByLabel(t('scan.manual')).waitFor()
      await (await scan('NOT-A-TICKET', t('scan.refuse'))).getByText(t('refused.code_unknown')).waitFor()
      await steward.button(t('scan.next')).click()
      await steward.button(t('scan.leave')).click()
      await enterAt(other.gate)
      await (await scan(code, t('scan.refuse'))).getByText(t('refused.wrong_pool')).waitFor()
      // The buyer's page tells it.
      await buyer.page.reload()
      await buyer.page.getByText(buyer.like('ticketUsed')).first().waitFor()
    })
  })
}
