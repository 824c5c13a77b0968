import { clock } from './clock'
import type { Problem } from './page'
import { has, t } from './texts'
import { trying } from './trying.svelte'

// Answer is what the server said. Status 0 means that no answer came: nothing is
// known then, neither that it was done nor that it was not.
export interface Answer<T> {
  status: number
  body: T | null
  problem: Problem | null
  // wait is what Retry-After asked for, in seconds.
  wait: number
}

export type Headers = Record<string, string>

const silence = { status: 0, body: null, problem: null, wait: 0 }

// call asks the server once.
export async function call<T = unknown>(method: string, path: string, body?: unknown, headers: Headers = {}): Promise<Answer<T>> {
  try {
    const r = await fetch(path, {
      method,
      headers: body === undefined ? headers : { 'Content-Type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body)
    })
    const text = await r.text()
    const parsed: unknown = text ? JSON.parse(text) : null
    const named = r.headers.get('Usher-Time') ?? (parsed as { serverTime?: string } | null)?.serverTime
    if (named) clock.sync(named)
    else clock.check(r.headers.get('Date'))
    return { status: r.status, body: r.ok ? (parsed as T) : null, problem: r.ok ? null : (parsed as Problem), wait: Number(r.headers.get('Retry-After')) || 0 }
  } catch {
    return silence
  }
}

const open = (status: number) => status === 0 || status === 429 || status === 502 || status === 503 || status === 504

export const sleep = (seconds: number) => new Promise<void>(done => setTimeout(done, seconds * 1000))

// patience is a sleep that a connection which comes back ends.
export const patience = (seconds: number) => new Promise<void>(done => {
  const end = () => {
    clearTimeout(timer)
    globalThis.removeEventListener?.('online', end)
    done()
  }
  const timer = setTimeout(end, seconds * 1000)
  globalThis.addEventListener?.('online', end)
})

// backoff is how long to wait before the next try, in seconds: twice as long each
// time, never less than the server asked for, and not the same for everybody.
export function backoff(turn: number, asked = 0, most = 8): number {
  return Math.max(asked, Math.min(2 ** turn, most)) * (0.8 + 0.4 * Math.random())
}

// sure repeats a write with its key until it is decided, done or refused, or until
// six repeats went unanswered. A repeat carries the same body, key and all; while one
// is under way the page can say so (Trying.svelte).
export async function sure<T = unknown>(method: string, path: string, body?: unknown, headers: Headers = {}): Promise<Answer<T>> {
  let r = await call<T>(method, path, body, headers)
  if (!open(r.status)) return r
  trying.count++
  for (let turn = 0; open(r.status) && turn < 6; turn++) {
    await patience(backoff(turn, r.wait))
    r = await call<T>(method, path, body, headers)
  }
  trying.count--
  return r
}

// newKey makes an idempotency key. randomUUID is missing on plain http.
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, b => b.toString(16).padStart(2, '0')).join('')
}

// problemText words a refusal: our own text for its code where there is one, else
// what the server said; for no answer and faults, that it is away.
export function problemText(r: Answer<unknown>): string {
  if (r.status === 0) return t('noAnswer')
  const code = `code.${r.problem?.code ?? ''}`
  if (has(code)) return t(code)
  if (r.status >= 500) return t('unavailable')
  return r.problem?.detail || r.problem?.title || t('unavailable')
}

// lookText words why there is no news, for a page that only looks: nothing was asked
// for that might have been done.
export function lookText(r: Answer<unknown>): string {
  return r.status === 0 ? t('noConnection') : problemText(r)
}

// toSignIn leaves for the sign-in page, which leads back to where we are.
export function toSignIn(): void {
  location.replace('/sign-in?next=' + encodeURIComponent(location.pathname + location.search))
}
