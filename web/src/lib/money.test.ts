import { expect, test } from 'vitest'
import { money, times } from './money'
import { page } from './page'

Object.assign(page.digits, { TWD: 2, JPY: 0, KWD: 3, EUR: 2 })

test.each([
  [680000, 'TWD', 'TWD\u00a06,800'],
  [0, 'TWD', 'TWD\u00a00'],
  [123456789, 'EUR', 'EUR\u00a01,234,567.89'],
  [5, 'EUR', 'EUR\u00a00.05'],
  [5000, 'JPY', 'JPY\u00a05,000'],
  [1250, 'KWD', 'KWD\u00a01.250']
])('%i of %s', (amountMinor, currency, shown) => {
  expect(money({ amountMinor, currency })).toBe(shown)
})

test('the price of several', () => {
  expect(times({ amountMinor: 333, currency: 'EUR' }, 3)).toEqual({ amountMinor: 999, currency: 'EUR' })
})
