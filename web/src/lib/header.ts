import { call } from './api'

// wireSignOut gives the header's button its work.
export function wireSignOut(): void {
  document.getElementById('signout')?.addEventListener('click', async () => {
    await call('DELETE', '/v1/session')
    location.assign('/')
  })
}
