import { $, call, countdown, el, key, money, page, places, problem, sure, t, tier } from './app.js'

const api = '/v1/events/' + page.eventId
const FREE = 0
const MAX = 6
let chart = null, states = null, position = null, shown = new Map(), picked = new Map(), counts = new Map(), hold = null, stopTimer = () => {}
// One key per choice of places: a repeat after a lost answer finds its own hold.
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

// look takes a new picture of the seats, where there are any.
const look = async () => page.seated ? snapshot() : { status: 200 }

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
  const { name: kind, price } = tier(seat.tier)
  const name = [section.name, t('row') + ' ' + row.label, t('seat') + ' ' + seat.label, price ? kind + ' ' + money(price) : ''].filter(Boolean).join(', ')
  const button = el('button', {
    type: 'button', class: 'seat',
    on: () => {
      if (picked.has(seat.id)) picked.delete(seat.id)
      else if (chosen() < MAX) picked.set(seat.id, { tier: seat.tier, label: name })
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

const items = () => [...counts].filter(([, n]) => n > 0).map(([tierId, quantity]) => ({ tierId, quantity }))
const chosen = () => picked.size + items().reduce((sum, i) => sum + i.quantity, 0)

// drawStanding shows the tiers without seats, each with a choice of how many.
function drawStanding() {
  const tiers = page.tiers.filter(x => x.kind === 'standing')
  $('standing').hidden = tiers.length === 0
  $('standingTiers').replaceChildren(...tiers.flatMap(x => {
    const choice = el('select', { id: 'count-' + x.tierId, 'aria-label': x.name + ', ' + t('quantity') },
      ...Array.from({ length: MAX + 1 }, (_, n) => el('option', { value: n }, n)))
    choice.value = counts.get(x.tierId) || 0
    choice.addEventListener('change', () => {
      counts.set(x.tierId, 0)
      counts.set(x.tierId, Math.min(Number(choice.value), MAX - chosen()))
      choice.value = counts.get(x.tierId)
      holdKey = key()
      total()
    })
    return [el('dt', {}, x.name + ' · ' + money(x.price) + (x.stock ? ' · ' + t('stock.' + x.stock) : '')), el('dd', {}, choice)]
  }))
}

function total() {
  let sum = 0, currency = ''
  for (const [id, n] of [...[...picked.values()].map(p => [p.tier, 1]), ...counts]) {
    const { price } = tier(id)
    if (price && n) { sum += price.amountMinor * n; currency = price.currency }
  }
  $('selection').replaceChildren(...[...picked.values()].map(p => el('li', {}, p.label)),
    ...items().map(i => el('li', {}, i.quantity + ' × ' + tier(i.tierId).name)))
  $('sum').textContent = currency ? money({ amountMinor: sum, currency }) : ''
  $('hold').disabled = chosen() === 0
}

async function place() {
  $('hold').disabled = true
  const body = { ...(picked.size && { seatIds: [...picked.keys()].sort() }), ...(items().length && { items: items() }), idempotencyKey: holdKey }
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
  for (const id of (r.body && r.body.tiers) || []) counts.delete(id)
  drawStanding()
  await look()
  patchAll()
  total()
}

// held shows a hold and its countdown; the choice of places is over meanwhile.
function held(h, time) {
  hold = h
  $('choose').hidden = true
  $('held').hidden = false
  $('heldSeats').replaceChildren(...places(h).map(p => el('li', {}, p.name + ' · ' + money(p.price))))
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
  counts = new Map()
  holdKey = key()
  $('held').hidden = true
  $('choose').hidden = false
  drawStanding()
  await look()
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

if (page.seated) $('section').addEventListener('change', draw)
$('hold').addEventListener('click', place)
$('release').addEventListener('click', async () => {
  const r = await sure('DELETE', '/v1/holds/' + hold.holdId)
  $('trouble').textContent = r.status === 200 ? '' : problem(r)
  if (r.status === 200) free()
})

const mine = await call('GET', api + '/holds')
if (mine.status === 401) location.replace('/sign-in?next=' + encodeURIComponent(location.pathname))
if (page.queued && !admission()) await renew()
const first = await look()
if (first.status !== 200) {
  $('trouble').textContent = problem(first)
} else {
  if (page.seated) draw()
  drawStanding()
  total()
  $('needQueue').hidden = !(page.queued && !admission())
  const live = mine.status === 200 && mine.body.holds.find(h => h.status === 'held')
  if (live) held(live, live.serverTime)
  if (page.seated && (!page.queued || admission())) follow()
}
