import { $, call, el, money, page, places, t } from './app.js'

const api = '/v1/events/' + page.eventId
const nothing = { status: 0 }
const [holds, orders] = page.signedIn ? await Promise.all([call('GET', api + '/holds'), call('GET', api + '/orders')]) : [nothing, nothing]
if (holds.status === 200 && holds.body.holds.length) {
  $('holds').hidden = false
  $('holdList').append(...holds.body.holds.map(h => el('li', {},
    el('a', { href: h.orderId ? '/orders/' + h.orderId : '/events/' + page.eventId + '/seats' }, places(h).map(p => p.name).join(', ')), ' · ' + money(h.amount))))
}
if (orders.status === 200 && orders.body.orders.length) {
  $('orders').hidden = false
  $('orderList').append(...orders.body.orders.map(o => el('li', {},
    el('a', { href: '/orders/' + o.orderId }, places(o).map(p => p.name).join(', ')), ' · ' + money(o.amount) + ' · ' + t('state.' + o.orderStatus))))
}
