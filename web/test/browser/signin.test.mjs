// Whoever is signed in is told so where others sign in, and can sign out in the queue.
import { test } from 'node:test'
import { makeEvent } from './lib/demo.mjs'
import { phone } from './lib/people.mjs'
import { stage, withPeople } from './lib/stage.mjs'

const s = stage()

for (const lang of ['en', 'zh-Hant']) {
  test(`signed in already (${lang})`, async () => {
    const event = await makeEvent(s.demo, { queue: true, rate: 0.001 })
    await withPeople(s, [{ lang, size: phone }], async p => {
      const { page, t } = p
      const main = page.getByRole('main')
      const queue = `/events/${event.id}/queue?lang=${lang}`
      await p.go(queue)
      await page.getByLabel(p.own.email).waitFor()
      await page.getByRole('button', { name: p.own.signOut }).waitFor({ state: 'hidden' })
      await p.signIn('/orders')

      await p.go(`/sign-in?next=/orders&lang=${lang}`)
      await main.getByText(p.email).waitFor()
      await p.accessible()
      await p.fits()
      await main.getByRole('link', { name: t('goOn') }).click()
      await page.waitForURL(/\/orders$/)
      await p.go(`/sign-in?lang=${lang}`)
      await main.getByRole('link', { name: t('myOrders') }).waitFor()
      await main.getByRole('button', { name: t('signOut') }).click()
      await page.getByLabel(t('email')).waitFor()

      await p.signIn(queue)
      await p.link(p.own.orders).waitFor()
      await p.accessible()
      await p.fits()
      await p.button(p.own.signOut).click()
      await page.getByLabel(p.own.email).waitFor()
      await p.go(`/orders?lang=${lang}`)
      await page.waitForURL(/\/sign-in/)
    })
  })
}
