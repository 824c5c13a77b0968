import { backoff } from '@lib/api'
import { clock } from '@lib/clock'
import type { Schema } from '@lib/page'
import { poll } from '@lib/poll'
import { t } from '@lib/texts'
import { Kept, Staff, undecided, type Asked } from '../staff/api'

export type Live = Schema['Live']
export type Event = Schema['Event']
export type AdminEvent = Schema['AdminEvent']

// Act is a move that is asked about first. words say what will happen.
export interface Act {
  title: string
  words: string
  confirm: string
  danger?: boolean
  run: (reason: string) => Promise<Asked<unknown>>
  done?: () => void
}

const kept = new Kept('usher.desk', '')

// The desk of one tab: who is signed in, and what is being asked about.
class Desk {
  key = $state('')
  act = $state.raw<Act | null>(null)
  // said is what came of the last move, for the eyes and for a screen reader.
  said = $state.raw<{ words: string; kind: 'good' | 'warn' }>({ words: '', kind: 'good' })
  // signedOut says why the key counts no more.
  signedOut = $state('')
  // away is when the last answer came, in milliseconds, while none comes; else 0.
  away = $state(0)
  private heard = clock.now()

  constructor() {
    this.key = kept.read()
  }

  enter(key: string) {
    kept.write(key)
    this.key = key
    this.signedOut = ''
  }

  say(words: string, kind: 'good' | 'warn' = 'good') {
    this.said = { words, kind }
  }

  leave(why = '') {
    kept.drop()
    this.key = ''
    this.act = null
    this.signedOut = why
  }

  // ask speaks to the server as the operator. A key that was taken back ends the desk.
  async ask<T>(method: string, path: string, body?: unknown, limit?: number): Promise<Asked<T>> {
    const asked = clock.now()
    const r = await new Staff(this.key).ask<T>(method, path, body, limit)
    if (r.status !== 0) this.heard = clock.now()
    // One lost answer says little while others come.
    this.away = this.heard < asked ? this.heard : 0
    if (r.status === 401) this.leave(t('desk.keyEnded'))
    return r
  }
}

export const desk = new Desk()

// once looks until there is an answer, for a place that shows what does not change by
// itself. It returns how to stop.
export function once(look: () => Promise<Asked<unknown> | null>): () => void {
  let failed = 0
  return poll(async () => {
    const r = await look()
    return r && undecided(r.status) && desk.key ? backoff(++failed, r.wait, 20) : null
  })
}

// path is the address of an event for operators.
export const path = (event: string, rest = '') => `/v1/admin/events/${event}${rest}`
