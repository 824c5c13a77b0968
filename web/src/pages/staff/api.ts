import { clock } from '@lib/clock'
import type { Problem } from '@lib/page'

// Asked is what the server said to a member of staff. Status 0 means that no answer
// came in time: nothing is known then.
export interface Asked<T> {
  status: number
  body: T | null
  problem: Problem | null
  // wait is what Retry-After asked for, in seconds.
  wait: number
  // replayed says that this is the answer to an earlier request.
  replayed: boolean
  // codeStatus is the state of a claimed code now.
  codeStatus: string
}

// patience is how long an answer may take before it counts as lost: on a bad network
// a request can hang for minutes.
const patience = 8000

// Staff speaks for a device or an operator: its credential goes with every request,
// and is kept for this tab alone.
export class Staff {
  constructor(readonly credential: string) {}

  async ask<T>(method: string, path: string, body?: unknown, limit = patience): Promise<Asked<T>> {
    const file = body instanceof Blob
    const headers: Record<string, string> = { Authorization: 'Bearer ' + this.credential }
    if (body !== undefined) headers['Content-Type'] = file ? body.type : 'application/json'
    try {
      const r = await fetch(path, {
        method,
        headers,
        body: body === undefined ? undefined : file ? body : JSON.stringify(body),
        cache: 'no-store',
        signal: AbortSignal.timeout(limit)
      })
      const text = await r.text()
      const parsed: unknown = text ? JSON.parse(text) : null
      clock.sync(r.headers.get('Usher-Time') ?? (parsed as { serverTime?: string } | null)?.serverTime)
      return {
        status: r.status,
        body: r.ok ? (parsed as T) : null,
        problem: r.ok ? null : (parsed as Problem),
        wait: Number(r.headers.get('Retry-After')) || 0,
        replayed: r.headers.get('Idempotent-Replayed') === 'true',
        codeStatus: r.headers.get('Usher-Code-Status') ?? ''
      }
    } catch {
      return { status: 0, body: null, problem: null, wait: 0, replayed: false, codeStatus: '' }
    }
  }
}

// undecided is whether an answer says neither yes nor no: the same request, key and
// all, has to be sent again.
export function undecided(status: number): boolean {
  return status === 0 || status === 429 || status >= 500
}

// Kept is a value of this tab that outlives a reload and nothing else.
export class Kept<T> {
  constructor(private readonly name: string, private readonly none: T) {}

  read(): T {
    try {
      return JSON.parse(sessionStorage.getItem(this.name) ?? 'null') ?? this.none
    } catch {
      return this.none
    }
  }

  write(value: T): void {
    try {
      sessionStorage.setItem(this.name, JSON.stringify(value))
    } catch {
      // A browser that keeps nothing forgets it with the page.
    }
  }

  drop(): void {
    try {
      sessionStorage.removeItem(this.name)
    } catch {
      // See write.
    }
  }
}
