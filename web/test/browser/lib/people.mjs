// People in a browser: each has a context of their own, and what their pages complain
// about fails the test.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'
import { mailTo, patience } from './demo.mjs'
import { ownWords, pattern, words } from './words.mjs'

export const phone = { width: 390, height: 844 }
export const desktop = { width: 1280, height: 800 }

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** openBrowser starts the system's Chromium (CHROMIUM, else the usual places). */
export function openBrowser() {
  const places = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
  const executablePath = places.find(p => p && existsSync(p))
  if (!executablePath) throw new Error('no Chromium: scripts/install-deps browser, or name one in CHROMIUM')
  return chromium.launch({
    executablePath, timeout: patience,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
}

/** cards are the simulator's numbers. */
export const cards = { approved: '4242424242424242', declined: '4000000000000002', challenge: '4000002500003155' }

let count = 0

export class Person {
  /** enter makes a person; options are lang, size, dark, and those of a context. */
  static async enter(browser, demo, { lang = 'en', size = desktop, dark = false, ...more } = {}) {
    const context = await browser.newContext({ viewport: size, locale: lang === 'en' ? 'en-US' : 'zh-TW', colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce', hasTouch: size.width < 500, ...more })
    context.setDefaultTimeout(patience)
    const p = new Person(context, demo, lang)
    await context.exposeBinding('usherViolation', (_, text) => void p.problems.push(text))
    await context.addInitScript(() => {
      addEventListener('securitypolicyviolation', e => window.usherViolation(`${e.documentURI} violates ${e.violatedDirective}: ${e.blockedURI} ${e.sample}`))
    })
    context.on('page', page => p.#watch(page))
    p.page = await context.newPage()
    return p
  }

  constructor(context, demo, lang) {
    this.context = context
    this.demo = demo
    this.lang = lang
    this.t = words(lang)
    this.like = pattern(lang)
    this.own = ownWords(lang)
    this.email = `person-${process.pid}-${++count}@example.org`
    this.problems = []
    // expected are complaints that a test provokes.
    this.expected = []
  }

  #watch(page) {
    page.on('pageerror', e => this.problems.push(`${page.url()}: ${e}`))
    page.on('console', m => {
      if (m.type() !== 'error') return
      // A refusal is an answer that pages handle; what breaks is told apart by its status.
      const status = /the server responded with a status of (\d+)/.exec(m.text())?.[1]
      if (status && status < 500) return
      this.problems.push(`${page.url()}: ${m.text()}`)
    })
    page.on('response', r => void this.#checkIds(r).catch(() => {}))
  }

  // P91: an id is text on the wire, whatever it looks like.
  async #checkIds(response) {
    if (!response.headers()['content-type']?.includes('json') || !response.url().startsWith(this.demo.url)) return
    const walk = value => {
      if (value === null || typeof value !== 'object') return
      for (const [name, inner] of Object.entries(value)) {
        if (/(^id|Ids?)$/.test(name) && [inner].flat().some(x => typeof x === 'number')) this.problems.push(`${response.url()}: ${name} is a number`)
        walk(inner)
      }
    }
    walk(await response.json())
  }

  button(name) { return this.page.getByRole('button', { name, exact: true }) }
  link(name) { return this.page.getByRole('link', { name, exact: true }) }

  go(path) { return this.page.goto(this.demo.url + path) }

  /** signIn takes the mailed code to the form, as people do. */
  async signIn(next = '/') {
    const { page, t } = this
    await this.go(`/sign-in?next=${encodeURIComponent(next)}&lang=${this.lang}`)
    await page.getByLabel(t('email')).fill(this.email)
    await this.button(t('sendCode')).click()
    const mail = await mailTo(this.demo, this.email, Number(this.codeMail?.id ?? 0))
    await page.getByLabel(t('code')).fill(/\b\d{6}\b/.exec(mail.text)[0])
    await page.getByRole('button', { name: t('signIn'), exact: true }).click()
    await page.waitForURL(u => !u.pathname.startsWith('/sign-in'))
    this.codeMail = mail
  }

  /** call asks usher with this person's cookie. */
  async call(method, path, body) {
    const r = await this.context.request.fetch(this.demo.url + path, { method, ...(body && { data: body }) })
    return { status: r.status(), body: r.status() === 204 ? null : await r.json() }
  }

  /** openSeats shows the seats of an event as a list, each seat a button. */
  async openSeats(event) {
    const { page, t } = this
    await this.go(`/events/${event.id}/seats?lang=${this.lang}`)
    const asList = page.getByRole('button', { name: t('asList'), exact: true })
    await asList.click()
  }

  seat(id) { return this.page.locator(`[data-seat="${id}"]`) }

  /** hold chooses seats and holds them. */
  async hold(...ids) {
    for (const id of ids) await this.seat(id).click()
    await this.button(this.t('hold')).click()
    await this.page.getByRole('heading', { name: this.t('yourHolds') }).waitFor()
  }

  /** toCard goes from what is held to the card page. */
  async toCard() {
    await this.link(this.t('pay')).click()
    await this.page.getByLabel(this.own.number).waitFor()
  }

  /** takeToCard signs in, holds places of an event without a queue and goes to the card page. */
  async takeToCard(event, ...ids) {
    await this.signIn(`/events/${event.id}`)
    await this.openSeats(event)
    await this.hold(...ids)
    await this.toCard()
  }

  async fillCard(number) {
    await this.page.getByLabel(this.own.number).fill(number)
    await this.page.getByLabel(this.own.expiry).fill('12/34')
    await this.page.getByLabel(this.own.cvc).fill('123')
  }

  async payBy(number) {
    await this.fillCard(number)
    await this.button(this.own.use).click()
  }

  /** orderShows waits until the order's page says so. */
  async orderShows(stage) {
    await this.page.waitForURL(/\/orders\/ord_/)
    await this.page.getByText(this.t(`head.${stage}`), { exact: true }).first().waitFor()
    return new URL(this.page.url()).pathname.split('/').pop()
  }

  /** fits fails when the page is wider than the screen. */
  async fits() {
    const [wide, screen] = await this.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
    assert.ok(wide <= screen, `${this.page.url()} is ${wide} px wide on a screen of ${screen}`)
  }

  /** accessible fails when axe finds something on the page. */
  async accessible() {
    await this.page.evaluate(axe)
    const found = await this.page.evaluate(async () => (await window.axe.run(document)).violations.map(v => `${v.id}: ${v.help}\n    ${v.nodes.map(n => n.html.slice(0, 200)).join('\n    ')}`))
    assert.deepEqual(found, [], `${this.page.url()} in ${this.lang}`)
  }

  /** leave closes everything and fails when a page complained. */
  async leave() {
    await this.context.close()
    const bad = this.problems.filter(p => !this.expected.some(e => e.test(p)))
    assert.deepEqual(bad, [], 'the pages complained')
  }
}
