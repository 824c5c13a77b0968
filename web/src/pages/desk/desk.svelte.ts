import type { Schema } from '@lib/page'
import { t } from '@lib/texts'
import { Kept, Staff, type Asked } from '../staff/api'

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
  // said is what the last move did, for the eyes and for a screen reader.
  said = $state('')
  // signedOut says why the key counts no more.
  signedOut = $state('')

  constructor() {
    this.key = kept.read()
  }

  enter(key: string) {
    kept.write(key)
    this.key = key
    this.signedOut = ''
  }

  leave(why = '') {
    kept.drop()
    this.key = ''
    this.act = null
    this.signedOut = why
  }

  // ask speaks to the server as the operator. A key that was taken back ends the desk.
  async ask<T>(method: string, path: string, body?: unknown, limit?: number): Promise<Asked<T>> {
    const r = await new Staff(this.key).ask<T>(method, path, body, limit)
    if (r.status === 401) this.leave(t('desk.keyEnded'))
    return r
  }
}

export const desk = new Desk()

// path is the address of an event for operators.
export const path = (event: string, rest = '') => `/v1/admin/events/${event}${rest}`
