import { $, call, lang, problem, t } from './app.js'

const next = new URLSearchParams(location.search).get('next') || '/'
$('form').addEventListener('submit', async e => {
  e.preventDefault()
  const second = !$('second').hidden
  $('go').disabled = true
  const r = second
    ? await call('POST', '/v1/session', { email: $('email').value, code: $('code').value })
    : await call('POST', '/v1/session/code', { email: $('email').value, locale: lang })
  $('go').disabled = false
  $('trouble').textContent = r.status === 201 || r.status === 202 ? '' : problem(r)
  if (r.status === 202) {
    $('second').hidden = false
    $('go').textContent = t('signIn')
    $('code').focus()
  }
  // Only a path of this site: an address from outside must not send people away.
  if (r.status === 201) location.assign(/^\/(?![/\\])/.test(next) ? next : '/')
})
