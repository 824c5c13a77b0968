import chinese from '@texts/desk.zh-Hant.json'
import { page } from '@lib/page'
import { beforeAll, expect, it } from 'vitest'
import type { Asked } from '../staff/api'
import { fieldsOf, troubleOf } from './trouble'

beforeAll(() => void (page.texts = { ...chinese, unavailable: 'later', noAnswer: 'none' }))

const refused = (status: number, code: string, detail = '', seats?: string[]): Asked<unknown> => ({
  status, body: null, wait: 0, replayed: false, codeStatus: '', problem: status ? { type: '', title: 'Title', status, code, detail, seats } : null
})

it('a refusal is worded in the language of the page, with the detail apart', () => {
  expect(troubleOf(refused(404, 'not_found', 'no such event'))).toEqual({ words: chinese['deny.not_found'], detail: '' })
  expect(troubleOf(refused(422, 'invalid_file', 'line 2: no seat_id'))).toEqual({ words: chinese['deny.invalid_file'], detail: 'line 2: no seat_id' })
  expect(troubleOf(refused(409, 'seats_unavailable', 'some are held', ['A-1', 'A-2']))).toEqual({ words: chinese['deny.seats_unavailable'], detail: 'some are held: A-1, A-2' })
  expect(troubleOf(refused(418, 'brand_new', ''))).toEqual({ words: chinese['deny.other'], detail: 'Title' })
  expect(troubleOf(refused(503, 'unavailable', 'the home is away'))).toEqual({ words: 'later', detail: 'the home is away' })
  expect(troubleOf(refused(0, ''))).toEqual({ words: 'none' })
})

it('fields that were refused say so in the language of the page', () => {
  const wrong = chinese['deny.field']
  expect(fieldsOf(refused(400, 'invalid_request', 'body.name: expected length <= 200; body.rules.holdSeconds: expected number >= 1; venue: required'))).toEqual({ name: wrong, holdSeconds: wrong, venue: wrong })
  expect(fieldsOf(refused(409, 'state_conflict', 'slug: taken'))).toEqual({})
})
