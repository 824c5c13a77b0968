import { $, call, countdown, el, key, money, page, problem, sure, t } from './app.js'

const api = '/v1/events/' + page.eventId
const FREE = 0
let chart = null, states = null, position = null, shown = new Map(), picked = new Map(), hold = null, stopTimer = () => {}
// One key per choice of seats: a repeat after a lost answer finds its own hold.
let holdKey = key()

function admission() {
  try { return JSON.parse(sessionStorage.getItem('admission:' + page.eventId)).admissionToken } catch { return '' }
}

// renew asks for a fresh admission token; the visit itself goes on.
async function renew() {
  if (!page.queued) return ''
  const r = await call('POST', api + '/queue/admit')
  if (r.status !== 200) return ''
  sessionStorage.setItem('admission:' + page.eventId, JSON.stringify(r.body))
  return r.body.admissionToken
}

function unpack(snapshot) {
  const raw = Uint8Array.from(atob(snapshot.states), c => c.charCodeAt(0))
  states = new Uint8Array(snapshot.count)
  for (let i = 0; i < snapshot.count; i++) states[i] = raw[i >> 2] >> (6 - 2 * (i & 3)) & 3
  position = { seq: snapshot.seq, lapse: snapshot.lapse }
}

async function snapshot() {
  const token = admission()
  const r = await call('GET', api + '/seats', null, token ? { 'Usher-Admission': token } : {})
  if (r.status !== 200) return r
  if (!chart || r.body.chart !== page.chart) {
    const c = await call('GET', '/v1/charts/' + r.body.chart)
    if (c.status !== 200) return c
    index(c.body)
    page.chart = r.body.chart
  }
  unpack(r.body)
  return r
}

// index gives every seat its ordinal: its position in the chart's own order.
function index(body) {
  chart = []
  let ordinal = 0
  for (const section of body.sections) {
    const rows = section.rows.map(row => ({ label: row.label, seats: row.seats.map(seat => ({ ...seat, ordinal: ordinal++ })) }))
    chart.push({ name: section.name, rows })
  }
  $('section').replaceChildren(...chart.map((s, i) => el('option', { value: i }, s.name)))
}

// draw makes the buttons of the chosen section; what changes later is patched, so
// that nobody's finger or focus loses its seat.
function draw() {
  const section = chart[$('section').value || 0]
  shown = new Map()
  $('rows').replaceChildren(...section.rows.map(row => el('div', { class: 'row' },
    el('span', {}, t('row') + ' ' + row.label), ...row.seats.map(seat => seatButton(section, row, seat)))))
}

function seatButton(section, row, seat) {
  const tier = page.tiers[seat.tier]
  const name = [section.name, t('row') + ' ' + row.label, t('seat') + ' ' + seat.label, tier ? tier.name + ' ' + money(tier.price) : ''].filter(Boolean).join(', ')
  const button = el('button', {
    type: 'button', class: 'seat',
    on: () => {
      if (picked.has(seat.id)) picked.delete(seat.id)
      else if (picked.size < 6) picked.set(seat.id, { tier: seat.tier, label: name })
      holdKey = key()
      patch(seat.ordinal)
      total()
    }
  }, seat.label)
  shown.set(seat.ordinal, { button, seat, name })
  patch(seat.ordinal)
  return button
}

function patch(ordinal) {
  const s = shown.get(ordinal)
  if (!s) return
  const free = states[ordinal] === FREE, on = picked.has(s.seat.id)
  s.button.disabled = !free && !on
  s.button.setAttribute('aria-pressed', String(on))
  s.button.setAttribute('aria-label', s.name + ', ' + (free ? t('free') : t('taken')))
  s.button.title = s.button.getAttribute('aria-label')
}

function patchAll() {
  for (const ordinal of shown.keys()) patch(ordinal)
}

function total() {
  let sum = 0, currency = ''
  for (const p of picked.values()) {
    const tier = page.tiers[p.tier]
    if (tier) { sum += tier.price.amountMinor; currency = tier.price.currency }
  }
  $('selection').replaceChildren(...[...picked.values()].map(p => el('li', {}, p.label)))
  $('sum').textContent = currency ? money({ amountMinor: sum, currency }) : ''
  $('hold').disabled = picked.size === 0
}

async function place() {
  $('hold').disabled = true
  const body = { seatIds: [...picked.keys()].sort(), idempotencyKey: holdKey }
  let token = admission()
  let r = await sure('POST', api + '/holds', { ...body, ...(token && { admissionToken: token }) })
  if (r.status !== 201 && r.body && /^admission_/.test(r.body.code)) {
    token = await renew()
    if (token) r = await sure('POST', api + '/holds', { ...body, admissionToken: token })
  }
  $('trouble').textContent = r.status === 201 ? '' : problem(r)
  if (r.status === 201) return held(r.body, r.time)
  holdKey = key()
  for (const id of (r.body && r.body.seats) || []) picked.delete(id)
  await snapshot()
  patchAll()
  total()
}

// held shows a hold and its countdown; the choice of seats is over meanwhile.
function held(h, time) {
  hold = h
  $('choose').hidden = true
  $('held').hidden = false
  $('heldSeats').replaceChildren(...h.seats.map(s => el('li', {}, s.seatId + ' · ' + money(s.price))))
  $('heldSum').textContent = money(h.amount)
  const back = location.origin + '/pay/' + h.holdId
  $('pay').href = h.amount.amountMinor === 0 || !page.cardPage ? back : page.cardPage + '?mode=redirect&return_url=' + encodeURIComponent(back)
  stopTimer()
  stopTimer = countdown($('left'), time || h.serverTime, h.expiresAt, free)
}

async function free() {
  stopTimer()
  hold = null
  picked = new Map()
  holdKey = key()
  $('held').hidden = true
  $('choose').hidden = false
  await snapshot()
  patchAll()
  total()
}

function follow() {
  // A browser's own stream sends the admission cookie and reconnects by itself.
  const source = new EventSource(api + '/seats/stream?after=' + position.seq + '.' + position.lapse)
  source.addEventListener('frame', e => {
    const f = JSON.parse(e.data)
    if (f.to < position.seq || (f.to === position.seq && f.lapse <= position.lapse)) return
    if (f.from > position.seq || f.lapseFrom > position.lapse) return restart()
    for (const [ordinal, state] of f.changes) {
      states[ordinal] = state
      patch(ordinal)
    }
    position = { seq: f.to, lapse: f.lapse }
  })
  source.addEventListener('reset', restart)
  // A new picture, not at once: everybody was told at the same moment.
  function restart() {
    source.close()
    setTimeout(async () => {
      await snapshot()
      patchAll()
      follow()
    }, 500 + 2500 * Math.random())
  }
}

$('section').addEventListener('change', draw)
$('hold').addEventListener('click', place)
$('release').addEventListener('click', async () => {
  const r = await sure('DELETE', '/v1/holds/' + hold.holdId)
  $('trouble').textContent = r.status === 200 ? '' : problem(r)
  if (r.status === 200) free()
})

const mine = await call('GET', api + '/holds')
if (mine.status === 401) location.replace('/sign-in?next=' + encodeURIComponent(location.pathname))
if (page.queued && !admission()) await renew()
const first = await snapshot()
if (first.status !== 200) {
  $('trouble').textContent = problem(first)
} else {
  draw()
  total()
  $('needQueue').hidden = !(page.queued && !admission())
  const live = mine.status === 200 && mine.body.holds.find(h => h.status === 'held')
  if (live) held(live, live.serverTime)
  if (!page.queued || admission()) follow()
}
