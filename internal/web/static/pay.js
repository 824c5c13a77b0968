import { $, key, page, problem, sure } from './app.js'

// The key of this payment outlives a reload: pressing reload pays nothing twice.
const token = new URLSearchParams(location.search).get('payment_method') || ''
const name = 'pay:' + page.holdId + ':' + token
const mine = sessionStorage.getItem(name) || key()
sessionStorage.setItem(name, mine)

const r = await sure('POST', '/v1/holds/' + page.holdId + '/checkout', { ...(token && { paymentMethodToken: token }), idempotencyKey: mine })
if (r.status === 201) {
  const to = r.body.nextAction.type === 'redirect' ? r.body.nextAction.url : '/orders/' + r.body.orderId
  // Replaced, so that the way back does not lead to this page again.
  location.replace(to)
} else {
  $('waiting').hidden = true
  $('trouble').textContent = problem(r)
  $('back').hidden = false
}
