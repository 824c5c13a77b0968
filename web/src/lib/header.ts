import { call } from './api'
import { t } from './texts'

// wireSignOut gives the header's button its work. Without an answer the button says
// that it is not done: whoever leaves a shared device has to know.
export function wireSignOut(): void {
  const button = document.getElementById('signout')
  button?.addEventListener('click', async () => {
    const r = await call('DELETE', '/v1/session')
    if (r.status === 204 || r.status === 401) return location.assign('/')
    button.setAttribute('aria-live', 'polite')
    button.textContent = t('notOut')
  })
}
