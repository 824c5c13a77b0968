import chinese from '@texts/desk.zh-Hant.json'
import { page } from '@lib/page'
import { beforeAll, expect, it } from 'vitest'
import { closing } from './closing'

beforeAll(() => void (page.texts = { ...chinese }))

it('why an order ended is worded in the language of the page', () => {
  expect(closing('cancelled by staff')).toBe(chinese['closed.cancelled_by_staff'])
  expect(closing('ExpireHolds')).toBe(chinese['closed.ExpireHolds'])
  expect(closing('grace_ended')).toBe(chinese['closed.grace_ended'])
  expect(closing('ReleaseHold')).toBe(chinese['closed.ReleaseHold'])
  expect(closing('ReleaseHold by opr_7: water\nin the hall')).toBe(chinese['closed.byStaff'].replace('{reason}', 'water\nin the hall'))
})

it('a code without words is shown as it is', () => {
  expect(closing('brand new')).toBe('brand new')
})
