import type { Schema } from '@lib/page'
import { has, t } from '@lib/texts'
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

// words says why something was refused, in the server's words where it gave any, and
// what is not known where no answer came.
export function words(r: Asked<unknown>): string {
  if (r.status === 0) return t('noAnswer')
  const { code = '', detail = '', title = '' } = r.problem ?? {}
  if (undecided(r.status)) return r.status === 429 ? t('code.rate_limited') : `${t('unavailable')} ${detail}`.trim()
  const key = `deny.${code}`
  const own = has(key) ? t(key) : title
  return detail && detail !== own ? `${own} ${detail}` : own
}

// fields takes apart a refusal of a form: "name: too long; venue: required".
export function fields(r: Asked<unknown>): Record<string, string> {
  const out: Record<string, string> = {}
  if (r.status !== 400 && r.status !== 422) return out
  for (const part of (r.problem?.detail ?? '').split('; ')) {
    const [, name, text] = /^(?:body\.)?([A-Za-z]+)[\w.[\]]*: (.+)$/.exec(part) ?? []
    if (name && text) out[name] = text
  }
  return out
}

// path is the address of an event for operators.
export const path = (event: string, rest = '') => `/v1/admin/events/${event}${rest}`
