// One demo and one browser for a file of tests. The runner may have started a demo for
// all files already.
import { after, before } from 'node:test'
import { startDemo } from './demo.mjs'
import { openBrowser, Person } from './people.mjs'

/** stage returns what the tests of a file share; it is there once they run. */
export function stage() {
  const s = { demo: null, browser: null, enter: options => Person.enter(s.browser, s.demo, options) }
  let own = null
  before(async () => {
    s.demo = process.env.BROWSER_TEST_DEMO ? JSON.parse(process.env.BROWSER_TEST_DEMO) : (own = await startDemo())
    s.browser = await openBrowser()
  })
  after(async () => {
    await s.browser?.close()
    await own?.stop()
  })
  return s
}

/** withPeople runs a test with people who are seen out whatever happens. */
export async function withPeople(s, options, fn) {
  const people = []
  let failure = null
  try {
    for (const o of options) people.push(await s.enter(o))
    await fn(...people)
  } catch (e) {
    failure = e
    // The runner prints the stack.
    for (const p of people) e.stack += `\n    at ${p.page.url()}, which says: ${await shown(p.page)}`
    e.stack += `\n    complaints: ${people.flatMap(p => p.problems).join('; ') || 'none'}`
  }
  for (const p of people) await p.leave().catch(e => (failure ??= e))
  if (failure) throw failure
}

/** shown is the beginning of what a page says. */
async function shown(page) {
  const text = await page.locator('body').innerText({ timeout: 2000 }).catch(() => '(nothing)')
  return text.replace(/\s+/g, ' ').slice(0, 1500)
}
