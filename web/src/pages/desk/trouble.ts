import { has, t } from '@lib/texts'
import { undecided, type Asked } from '../staff/api'

// Trouble is why something was not done, or is not known: words in the reader's
// language, and what the server says in detail, which is English.
export interface Trouble {
  words: string
  detail?: string
}

export function troubleOf(r: Asked<unknown>): Trouble {
  if (r.status === 0) return { words: t('noAnswer') }
  const { code = '', title = '', detail = '', seats = [] } = r.problem ?? {}
  const named = [detail, seats.slice(0, 20).join(', ')].filter(Boolean).join(': ')
  if (undecided(r.status)) return { words: r.status === 429 ? t('code.rate_limited') : t('unavailable'), detail: named }
  const key = `deny.${code}`
  // That there is none says it all.
  return has(key) ? { words: t(key), detail: code === 'not_found' ? '' : named } : { words: t('deny.other'), detail: named || title }
}

// noNews is why a look failed. That no answer comes is said once for the whole desk.
export function noNews(r: Asked<unknown>): Trouble | null {
  return r.body || r.status === 0 ? null : troubleOf(r)
}

// fieldsOf names the fields of a form that the server refused, each with words for it:
// its details are "name: too long; venue: required".
export function fieldsOf(r: Asked<unknown>): Record<string, string> {
  const out: Record<string, string> = {}
  if (r.status !== 400 && r.status !== 422) return out
  for (const part of (r.problem?.detail ?? '').split('; ')) {
    const name = /^(?:body\.(?:rules\.)?)?([A-Za-z]+)[\w.[\]]*: ./.exec(part)?.[1]
    if (name) out[name] = t('deny.field')
  }
  return out
}
