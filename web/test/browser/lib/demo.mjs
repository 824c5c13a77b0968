// The demo that the tests look at: the real binary, on a fresh folder.
import { spawn } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../../..', import.meta.url))

/** patience is for anything on a machine that does other things, too. */
export const patience = Number(process.env.BROWSER_TEST_PATIENCE_MS ?? 90_000)

/**
 * startDemo runs the binary (BROWSER_TEST_BINARY, else bin/usher) and returns what it printed,
 * with stop(). More flags may be given, such as those of a crowd.
 */
export async function startDemo(...flags) {
  const dir = await mkdtemp(path.join(tmpdir(), 'usher-browser-'))
  // PostgreSQL runs as another user when this runs as root.
  await chmod(dir, 0o711)
  const binary = process.env.BROWSER_TEST_BINARY ?? path.join(root, 'bin', 'usher')
  const child = spawn(binary, ['demo', '--json', '--addr', '127.0.0.1:0', '--data-dir', path.join(dir, 'data'), ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  child.stderr.on('data', chunk => (log = (log + chunk).slice(-20_000)))
  const ended = new Promise(resolve => {
    child.on('error', e => resolve(`cannot run ${binary}: ${e.message}`))
    child.on('exit', (code, signal) => resolve(code ?? signal))
  })
  const stop = async () => {
    child.kill('SIGTERM')
    const code = await ended
    await rm(dir, { recursive: true, force: true })
    if (code !== 0) throw new Error(`the demo ended with ${code}:\n${log}`)
  }
  const line = await Promise.race([
    new Promise(resolve => createInterface(child.stdout).once('line', resolve)),
    ended.then(code => Promise.reject(new Error(`the demo did not start (${code}):\n${log}`)))
  ])
  return { ...JSON.parse(line), stop }
}

/** api calls usher as the operator, and insists. */
export async function admin(demo, method, path, body, media = 'application/json') {
  const r = await fetch(demo.url + path, {
    method,
    headers: { Authorization: `Bearer ${demo.adminToken}`, ...(body !== undefined && { 'Content-Type': media }) },
    body: typeof body === 'object' ? JSON.stringify(body) : body
  })
  const text = await r.text()
  if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`)
  return text ? JSON.parse(text) : null
}

let made = 0

const rowOf = i => String.fromCharCode(65 + Math.floor(i / 6))

/** rowsOf names the seats of so many rows of six, B-1 and so on. */
export const rowsOf = n => Array.from({ length: 6 * n }, (_, i) => `${rowOf(i)}-${(i % 6) + 1}`)

/**
 * makeEvent publishes an event of its own for a test, so that tests do not meet: two
 * rows of six seats unless others are named, and standing places where they are asked for.
 */
export async function makeEvent(demo, { name = 'A small evening', venue = 'Back room', queue = false, standing = 0, seats, rate, tierName = 'Floor', section = () => 'Stalls' } = {}) {
  const slug = `browser-${process.pid}-${++made}`
  const draft = await admin(demo, 'POST', '/v1/admin/events', {
    slug, name, venue, startsAt: '2030-03-01 20:00', timeZone: 'Asia/Taipei', opensAt: '2020-01-01 00:00', queueOpensAt: '2020-01-01 00:00', currency: 'TWD',
    rules: { admissionRequired: queue }, ...(rate && { ratePerSecond: rate }), reason: 'browser test'
  })
  const id = draft.event.eventId
  const prices = {}
  const ids = seats ?? rowsOf(2)
  if (ids.length) {
    const rows = ids.map((seat, i) => `${seat},${section(i)},${rowOf(i)},${(i % 6) + 1},stalls,${(i % 6) * 10},${Math.floor(i / 6) * 12}`)
    await admin(demo, 'PUT', `/v1/admin/events/${id}/chart?name=chart.csv`, ['seat_id,section,row,number,tier,x,y', ...rows, ''].join('\n'), 'text/csv')
    prices.stalls = 120_000
  }
  if (standing) {
    await admin(demo, 'PUT', `/v1/admin/events/${id}/standing`, { tiers: [{ tierId: 'floor', name: tierName, capacity: standing }], reason: 'browser test' })
    prices.floor = 60_000
  }
  await admin(demo, 'PUT', `/v1/admin/events/${id}/prices`, { prices, reason: 'browser test' })
  await admin(demo, 'POST', `/v1/admin/events/${id}/publish`, { reason: 'browser test' })
  const gate = await admin(demo, 'POST', `/v1/admin/events/${id}/devices`, { name: 'Browser gate', settle: 'now', reason: 'browser test' })
  return { id, name, venue, gate: gate.credential }
}

/** mailTo waits for the newest mail to an address and returns it. */
export async function mailTo(demo, email, after = 0) {
  for (const until = Date.now() + patience; Date.now() < until; ) {
    const { mails } = await (await fetch(`${demo.mailUrl}/mails?wait=20&limit=5&to=${encodeURIComponent(email)}`)).json()
    const fresh = mails.filter(m => Number(m.id) > after)
    if (fresh.length) return (await fetch(`${demo.mailUrl}/mails/${fresh[0].id}`)).json()
  }
  throw new Error(`no mail for ${email}`)
}

/** charges returns what the provider's own ledger has for an event. */
export async function charges(demo, event) {
  const ledger = await (await fetch(`${demo.simulatorUrl}/control/ledger`)).json()
  return ledger.intents.filter(i => i.eventId === event)
}
