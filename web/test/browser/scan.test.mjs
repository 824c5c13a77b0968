// At the gate: the first scan opens, the second is refused with the reason, and a scan
// without an answer is asked about until there is one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { admin, makeEvent } from './lib/demo.mjs'
import { cards, phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

/** buy buys seats and returns the codes of their tickets. */
async function buy(buyer, event, ...seats) {
  await buyer.takeToCard(event, ...seats)
  await buyer.payBy(cards.approved)
  const order = await buyer.orderShows('tickets')
  return (await buyer.call('GET', `/v1/orders/${order}/tickets`)).body.tickets.map(k => k.code)
}

/** enterAt opens a gate. */
async function enterAt(steward, gate) {
  const { page, t, lang } = steward
  await steward.go(`/scan?lang=${lang}`)
  await page.getByLabel(t('scan.credential')).fill(gate)
  await steward.button(t('scan.begin')).click()
  await page.getByLabel(t('scan.manual')).waitFor()
}

/** answer waits for the answer that fills the screen. */
async function answer({ page }, heading) {
  const found = page.getByRole('alert').filter({ has: page.getByRole('heading', { name: heading }) })
  await found.waitFor()
  return found
}

/** gone waits until the answer has made room for the next scan. */
const gone = ({ page }, heading) => page.getByRole('alert').filter({ hasText: heading }).waitFor({ state: 'hidden' })

/** scan types a code and waits for the answer. */
async function scan(steward, text, heading) {
  await steward.page.getByLabel(steward.t('scan.manual')).fill(text)
  await steward.button(steward.t('scan.check')).click()
  return answer(steward, heading)
}

for (const lang of ['en', 'zh-Hant']) {
  test(`a ticket opens once (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    const other = await makeEvent(s.demo)
    await withPeople(s, [{ lang }, { lang, size: phone }], async (buyer, steward) => {
      const [code] = await buy(buyer, event, 'A-1')
      const { page, t } = steward
      await enterAt(steward, event.gate)
      // The gate names the seat as the ticket does.
      const admitted = await scan(steward, code, t('scan.admit'))
      assert.deepEqual(await admitted.getByRole('definition').allInnerTexts(), ['Stalls', 'A', '1'])
      await steward.fits()
      await gone(steward, t('scan.admit'))
      const refused = await scan(steward, code, t('scan.refuse'))
      await refused.getByText(steward.like('refused.usedAt')).waitFor()
      await steward.accessible()
      await steward.button(t('scan.next')).click()
      // A reload forgets nothing, and an unknown code is refused, too.
      await page.reload()
      await page.getByLabel(t('scan.manual')).waitFor()
      await (await scan(steward, 'NOT-A-TICKET', t('scan.refuse'))).getByText(t('refused.code_unknown')).waitFor()
      await steward.button(t('scan.next')).click()
      await steward.button(t('scan.leave')).click()
      await enterAt(steward, other.gate)
      await (await scan(steward, code, t('scan.refuse'))).getByText(t('refused.wrong_pool')).waitFor()
      // The buyer's page tells it.
      await buyer.page.reload()
      await buyer.page.getByText(buyer.like('ticketUsed')).first().waitFor()
    })
  })

  test(`a gate that settles later: a reload comes back to the claim, and "not let in" lets nobody in (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    const { credential } = await admin(s.demo, 'POST', `/v1/admin/events/${event.id}/devices`, { name: 'Turnstile', settle: 'later', reason: 'browser test' })
    await withPeople(s, [{ lang }, { lang, size: { width: 844, height: 390 } }], async (buyer, steward) => {
      const [first, second] = await buy(buyer, event, 'A-1', 'A-2')
      const { page, t } = steward
      await enterAt(steward, credential)
      await scan(steward, first, t('scan.claimed'))
      await page.reload()
      await answer(steward, t('scan.claimed'))
      // All of it is in sight on a phone held sideways.
      await steward.button(t('scan.letIn')).click({ trial: true })
      const box = await steward.button(t('scan.notIn')).boundingBox()
      assert.ok(box.y + box.height <= 390, `the button ends at ${box.y + box.height}`)
      await steward.accessible()
      await steward.button(t('scan.notIn')).click()
      const stopped = await answer(steward, t('scan.refuse'))
      await stopped.getByText(t('refused.not_let_in')).waitFor()
      assert.equal(await page.getByRole('heading', { name: t('scan.admit') }).count(), 0)
      await steward.button(t('scan.next')).click()
      await scan(steward, second, t('scan.claimed'))
      await steward.button(t('scan.letIn')).click()
      await answer(steward, t('scan.admit'))
      await gone(steward, t('scan.admit'))
      assert.deepEqual([await page.locator('#admitted').innerText(), await page.locator('#refused').innerText()], ['1', '1'])
    })
  })

  test(`an undecided scan is asked about by itself, and before the gate closes (${lang})`, async () => {
    const event = await makeEvent(s.demo)
    await withPeople(s, [{ lang }, { lang, size: phone }], async (buyer, steward) => {
      const [first, second] = await buy(buyer, event, 'A-1', 'A-2')
      const { page, t } = steward
      steward.expected.push(/ERR_FAILED|ERR_INTERNET_DISCONNECTED/)
      const sent = []
      page.on('request', r => r.url().endsWith('/v1/redemptions') && sent.push(r.postDataJSON()))
      const lose = r => r.abort()
      await enterAt(steward, event.gate)
      await page.route('**/v1/redemptions', lose)
      await scan(steward, first, t('scan.undecided'))
      // Whoever showed the ticket stands there still after a reload, and the connection
      // alone decides.
      await page.reload()
      await answer(steward, t('scan.undecided'))
      await steward.accessible()
      await page.unroute('**/v1/redemptions', lose)
      await answer(steward, t('scan.admit'))
      assert.ok(sent.length > 1)
      assert.deepEqual(sent, Array(sent.length).fill({ code: first, transactionId: sent[0].transactionId }))

      await page.route('**/v1/redemptions', lose)
      await gone(steward, t('scan.admit'))
      await scan(steward, second, t('scan.undecided'))
      await steward.button(t('scan.setAside')).click()
      // Set aside, it stays so through a reload.
      await page.reload()
      await page.getByText(t('scan.openOnes', { n: 1 })).waitFor()
      await steward.button(t('scan.leave')).click()
      const asked = page.getByRole('dialog', { name: t('scan.leaveAsk', { n: 1 }) })
      await asked.waitFor()
      await steward.accessible()
      await steward.fits()
      await asked.getByRole('button', { name: t('keepAsIs') }).click()
      await page.unroute('**/v1/redemptions', lose)
      await steward.button(t('scan.askAgain')).click()
      await answer(steward, t('scan.admit'))
      await gone(steward, t('scan.admit'))
      await steward.button(t('scan.leave')).click()
      await page.getByLabel(t('scan.credential')).waitFor()
    })
  })
}

test('a camera that ends by itself, and one whose reader did not load, are told and let go', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{ size: phone }], async p => {
    const { page, t } = p
    p.expected.push(/ERR_FAILED|wasm|ArrayBuffer instantiation/)
    await page.addInitScript(() => {
      const canvas = document.createElement('canvas')
      const pen = canvas.getContext('2d')
      // Without a new frame a stream never plays.
      setInterval(() => pen.fillRect(0, 0, 9, 9), 50)
      window.streams = []
      navigator.mediaDevices.getUserMedia = async () => {
        const stream = canvas.captureStream(5)
        window.streams.push(stream)
        return stream
      }
    })
    await enterAt(p, event.gate)
    await page.route(/\.wasm/, r => r.abort())
    await p.button(t('camera.start')).click()
    await page.getByText(t('camera.unread')).waitFor()
    assert.deepEqual(await page.evaluate(() => window.streams.map(x => x.active)), [false])
    await page.unroute(/\.wasm/)
    await page.reload()
    await p.button(t('camera.start')).click()
    await p.button(t('camera.stop')).waitFor()
    await page.evaluate(() => window.streams[0].getVideoTracks()[0].dispatchEvent(new Event('ended')))
    await page.getByText(t('camera.busy')).waitFor()
    await p.button(t('camera.start')).waitFor()
    assert.deepEqual(await page.evaluate(() => window.streams.map(x => x.active)), [false])
  })
})
