// What every page shares: words, the server, money and the countdown.
export const page = JSON.parse(document.getElementById('page').textContent)
export const lang = page.lang
export const t = key => page.texts[key] || key
export const $ = id => document.getElementById(id)

// call asks the server. Status 0 means that no answer came: nothing is known then.
export async function call(method, path, body, headers = {}) {
  try {
    const r = await fetch(path, {
      method,
      headers: body ? { 'Content-Type': 'application/json', ...headers } : headers,
      body: body && JSON.stringify(body)
    })
    const text = await r.text()
    return { status: r.status, body: text ? JSON.parse(text) : null, wait: Number(r.headers.get('Retry-After')) || 0, time: r.headers.get('Usher-Time') }
  } catch {
    return { status: 0, body: null, wait: 0, time: null }
  }
}

// sure repeats a write with its key until it is decided: done or refused.
export async function sure(method, path, body, headers) {
  for (let turn = 0; ; turn++) {
    const r = await call(method, path, body, headers)
    const open = r.status === 0 || r.status === 429 || r.status === 503
    if (!open || turn === 6) return r
    await new Promise(done => setTimeout(done, 1000 * Math.max(r.wait, Math.min(2 ** turn, 8)) * (0.8 + 0.4 * Math.random())))
  }
}

export const key = () => crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, '0')).join('')

// money shows an amount by its currency's own digits; whole amounts without them.
export function money(m) {
  const digits = page.digits[m.currency] ?? 2
  const text = String(Math.abs(m.amountMinor)).padStart(digits + 1, '0')
  const whole = text.slice(0, text.length - digits), rest = text.slice(text.length - digits)
  const shown = new Intl.NumberFormat(lang).format(BigInt(whole)) + (Number(rest) ? '.' + rest : '')
  return m.currency + ' ' + shown
}

// tier is what a page knows of a tier, and its id where it knows nothing.
export const tier = id => (page.tiers || []).find(x => x.tierId === id) || { tierId: id, name: id }

// places are the lines of a hold or an order, with what each costs: seats by name,
// the others by number.
export const places = h => [
  ...h.seats.map(s => ({ name: s.seatId, price: s.price })),
  ...(h.items || []).map(i => ({ name: i.quantity + ' × ' + tier(i.tierId).name, price: { ...i.price, amountMinor: i.price.amountMinor * i.quantity } }))
]

export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') e.className = value
    else if (name === 'on') e.addEventListener('click', value)
    else if (value === true) e.setAttribute(name, '')
    else if (value !== false && value != null) e.setAttribute(name, value)
  }
  e.append(...children)
  return e
}

// countdown shows what is left until a server time, counted by the device's
// monotonic clock from a server time: a wrong clock changes nothing.
export function countdown(target, serverTime, until, over) {
  const left = new Date(until) - new Date(serverTime), start = performance.now()
  const tick = () => {
    const ms = left - (performance.now() - start)
    const s = Math.max(0, Math.ceil(ms / 1000))
    target.textContent = Math.floor(s / 60) + ':' + String(s % 60).padStart(2, '0')
    if (ms <= 0) { clearInterval(timer); over() }
  }
  const timer = setInterval(tick, 250)
  tick()
  return () => clearInterval(timer)
}

// problem is the text for a refusal: the server's own words, or that it is away.
export const problem = r => r.status === 0 || r.status >= 500 ? t('unavailable') : (r.body && (r.body.detail || r.body.title)) || t('unavailable')

const out = $('signout')
if (out) out.addEventListener('click', async () => {
  await call('DELETE', '/v1/session')
  location.reload()
})
