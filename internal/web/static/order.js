import { $, call, countdown, el, money, page, places, problem, t } from './app.js'

const api = '/v1/orders/' + page.orderId
let stopTimer = () => {}, drawnTickets = 0

function show(o) {
  $('status').textContent = t('state.' + o.orderStatus)
  $('status').className = o.orderStatus === 'confirmed' ? 'good' : ['payment_pending', 'voiding'].includes(o.orderStatus) ? '' : 'bad'
  const open = o.orderStatus === 'payment_pending'
  $('payment').textContent = open ? t('pay.' + o.paymentStatus) : o.orderStatus === 'voiding' ? t('pay.unknown') : ''
  $('seats').replaceChildren(...places(o).map(p => el('li', {}, p.name + ' · ' + money(p.price))))
  $('sum').textContent = money(o.amount)
  $('bank').hidden = o.nextAction.type !== 'redirect'
  if (o.nextAction.url) $('bank').href = o.nextAction.url
  const again = o.nextAction.type === 'pay_again'
  $('again').hidden = !again
  $('timer').hidden = !again
  stopTimer()
  if (again) {
    const back = location.origin + '/pay/' + o.holdId
    $('again').href = page.cardPage ? page.cardPage + '?mode=redirect&return_url=' + encodeURIComponent(back) : back
    stopTimer = countdown($('left'), o.serverTime, o.expiresAt, look)
  }
}

async function tickets() {
  const r = await call('GET', api + '/tickets')
  if (r.status !== 200) return false
  const list = r.body.tickets
  $('soon').hidden = list.length > 0
  $('print').hidden = list.length === 0
  if (list.length !== drawnTickets) {
    drawnTickets = list.length
    $('tickets').replaceChildren(...list.map(k => el('div', { class: 'card ticket' },
      el('h2', {}, k.seatId || k.tierName || k.tierId),
      k.seatId && k.tierName ? el('p', {}, k.tierName) : '',
      k.cancelled ? el('p', { class: 'bad' }, t('cancelledTicket'))
        : el('img', { src: api + '/tickets/' + k.ticketId + '/qr.svg', alt: 'QR · ' + (k.seatId || k.tierName || k.tierId), width: 256, height: 256 }),
      el('p', {}, el('code', {}, k.code)),
      k.usedAt ? el('p', { class: 'soft' }, t('usedAt') + ' ' + new Date(k.usedAt).toLocaleString(page.lang)) : '')))
  }
  return list.length > 0
}

async function look() {
  const r = await call('GET', api)
  $('trouble').textContent = r.status === 200 ? '' : problem(r)
  if (r.status === 401) return location.replace('/sign-in?next=' + encodeURIComponent(location.pathname))
  if (r.status === 404) return
  let wait = 2000
  if (r.status === 200) {
    show(r.body)
    if (r.body.orderStatus === 'confirmed') {
      $('ticketArea').hidden = false
      if (await tickets()) return
      wait = 1000
    } else if (!['payment_pending', 'voiding', 'declined'].includes(r.body.orderStatus)) return
  }
  setTimeout(look, wait)
}

$('print').addEventListener('click', () => print())
// Coming back from the bank proves nothing: the server asks the provider now. What
// the provider put into the address is nobody's business here and leaves it.
if (new URLSearchParams(location.search).has('payment_intent')) {
  history.replaceState(null, '', location.pathname)
  await call('POST', api + '/return')
}
look()
