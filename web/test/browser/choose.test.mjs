// Choosing: what stays, what goes, and what is said about it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { admin, makeEvent, rowsOf } from './lib/demo.mjs'
import { phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

test('a choice goes on in the other language, and as the list that it was', async () => {
  const event = await makeEvent(s.demo, { standing: 40 })
  await withPeople(s, [{ size: phone }], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.seat('A-2').click()
    await p.button(p.t('oneMore', { name: 'Floor' })).click()
    await p.link(p.t('otherLang')).click()
    await p.page.waitForURL(/lang=zh-Hant/)
    await p.page.locator('[data-seat="A-2"][aria-pressed=true]').waitFor()
    assert.equal(await p.page.locator('#standing output').innerText(), '1')
    await p.page.locator('#hold').click()
    await p.page.locator('#held').waitFor()
    const [hold] = (await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds
    assert.deepEqual([hold.seats.map(x => x.seatId), hold.items.map(x => x.quantity)], [['A-2'], [1]])
    // What was held is no choice any more.
    await p.page.locator('#release').click()
    await p.page.getByRole('dialog').locator('button.danger').click()
    await p.page.reload()
    await p.page.locator('[data-seat="A-2"][aria-pressed=false]:not([disabled])').waitFor()
    assert.equal(await p.page.locator('#standing output').innerText(), '0')
  })
})

test('a page that began as the list follows the sale, and asks for no picture again', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}, {}], async (p, other) => {
    await p.signIn(`/events/${event.id}`)
    await other.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.seat('B-1').click()
    await p.page.reload()
    await p.page.locator('[data-seat="B-1"][aria-pressed=true]').waitFor()
    const asked = []
    p.page.on('request', r => /\/seats(\/stream)?$/.test(new URL(r.url()).pathname) && asked.push(r.url()))
    await p.page.emulateMedia({ colorScheme: 'dark' })
    for (const seat of ['A-1', 'A-2']) {
      await other.call('POST', `/v1/events/${event.id}/holds`, { seatIds: [seat], idempotencyKey: seat })
      await p.page.locator(`[data-seat="${seat}"][disabled]`).waitFor()
    }
    assert.deepEqual(asked.filter(u => !u.includes('/stream')), [])
    assert.ok(asked.length < 2, asked.join())
    // The map comes with what changed meanwhile.
    await p.button(p.t('asMap')).click()
    await p.page.waitForFunction(() => performance.getEntriesByName('seats:painted').length > 0)
  })
})

test('a hold that staff released is gone from its page', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{}], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.hold('A-1', 'A-2')
    const [hold] = (await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds
    await admin(s.demo, 'POST', `/v1/admin/holds/${hold.holdId}/release`, { reason: 'browser test' })
    await p.page.getByText(p.t('gone.released')).waitFor()
    await p.seat('A-1').waitFor()
    await p.accessible()
  })
})

test('a hold that was asked for without a connection: said at once, held once when it is back', async () => {
  const event = await makeEvent(s.demo)
  await withPeople(s, [{ size: phone }], async p => {
    p.expected.push(/ERR_INTERNET_DISCONNECTED/)
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.seat('B-1').click()
    await p.context.setOffline(true)
    await p.button(p.t('hold')).click()
    await p.page.getByText(p.t('stillTrying')).waitFor()
    await p.page.waitForFunction(() => document.activeElement?.classList.contains('told'))
    await p.fits()
    await p.context.setOffline(false)
    await p.page.getByRole('heading', { name: p.t('yourHolds') }).waitFor()
    assert.equal(await p.page.getByText(p.t('stillTrying')).count(), 0)
    assert.equal((await p.call('GET', `/v1/events/${event.id}/holds`)).body.holds.length, 1)
  })
})

test('more standing places than are left: nobody is said to have been faster', async () => {
  const event = await makeEvent(s.demo, { seats: [], standing: 3 })
  await withPeople(s, [{ lang: 'zh-Hant', size: phone }], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.go(`/events/${event.id}/seats?lang=${p.lang}`)
    await p.page.getByText(p.t('stock.few'), { exact: true }).waitFor()
    for (let i = 0; i < 4; i++) await p.button(p.t('oneMore', { name: 'Floor' })).click()
    await p.button(p.t('hold')).click()
    await p.page.getByText(p.t('taken.few')).waitFor()
    await p.page.getByText(p.t('taken.tier', { name: 'Floor' })).waitFor()
    assert.equal(await p.page.getByText(p.t('taken.title')).count(), 0)
  })
})

for (const [name, size] of [['a phone held sideways', { width: 844, height: 390 }], ['a desktop at twice the size', { width: 640, height: 400 }]]) {
  test(`the map on ${name}: in sight as a whole with the bar, and the wheel passes it`, async () => {
    const event = await makeEvent(s.demo, { seats: rowsOf(12) })
    await withPeople(s, [{ size }], async p => {
      await p.signIn(`/events/${event.id}`)
      await p.go(`/events/${event.id}/seats?lang=${p.lang}`)
      const map = p.page.locator('#map')
      await p.page.waitForFunction(() => performance.getEntriesByName('seats:painted').length > 0)
      await map.scrollIntoViewIfNeeded()
      const box = await map.boundingBox(), bar = await p.page.locator('.bar').boundingBox()
      assert.ok(box.height + bar.height <= size.height, `the map is ${box.height} px tall, the bar ${bar.height} px`)
      assert.ok(box.height >= size.height / 2, `the map is ${box.height} px tall`)
      await p.page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
      // Farther than all of it is the page's, closer is the map's.
      const top = await p.page.evaluate(() => scrollY)
      await p.page.mouse.wheel(0, 60)
      await p.page.waitForFunction(from => scrollY > from, top)
      const scrolled = await p.page.evaluate(() => scrollY)
      await p.page.mouse.wheel(0, -200)
      await p.page.locator('.zoom button:not([disabled])').nth(2).waitFor()
      assert.equal(await p.page.evaluate(() => scrollY), scrolled)
      await p.fits()
    })
  })
}

test('the list begins where seats are free, and letters of twice the size fit a phone', async () => {
  const event = await makeEvent(s.demo, { standing: 20, section: i => (i < 6 ? 'Front' : 'Rear') })
  await admin(s.demo, 'POST', `/v1/admin/events/${event.id}/seats/block`, { seatIds: rowsOf(1), reason: 'browser test' })
  await withPeople(s, [{ size: phone }], async p => {
    await p.signIn(`/events/${event.id}`)
    await p.openSeats(event)
    await p.seat('B-1').click()
    // What is shown is chosen by the reader from now on.
    await p.page.locator('#section').selectOption({ index: 0 })
    await p.seat('A-1').waitFor()
    // What the keyboard comes to is not behind the line that stays in sight.
    await p.page.locator('#section').focus()
    for (let i = 0; i < 12; i++) {
      await p.page.keyboard.press('Tab')
      const hidden = await p.page.evaluate(() => {
        const at = document.activeElement, bar = document.querySelector('.stays')
        return at !== document.body && !bar.contains(at) && at.getBoundingClientRect().bottom > bar.getBoundingClientRect().top + 1 && at.getBoundingClientRect().top < bar.getBoundingClientRect().bottom ? at.outerHTML : ''
      })
      assert.equal(hidden, '')
    }
    await p.page.evaluate(() => (document.documentElement.style.fontSize = '200%'))
    await p.fits()
    await p.button(p.t('asMap')).click()
    await p.fits()
    // Colours that a reader forces do not hide what is chosen, nor which price is which.
    await p.page.emulateMedia({ forcedColors: 'active' })
    const ground = at => p.page.locator(at).evaluate(x => getComputedStyle(x).backgroundColor)
    assert.notEqual(await ground('#viewMap'), await ground('#viewList'))
    assert.notEqual(await ground('.tiers .swatch'), await ground('.tiers button'))
  })
})
