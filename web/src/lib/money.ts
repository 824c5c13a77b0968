import { lang, page, type Money } from './page'

// money shows an amount by its currency's own digits; a whole amount without them.
// The sum is never a fraction on the way: minor units may exceed what a float keeps.
export function money(m: Money): string {
  const digits = page.digits[m.currency] ?? 2
  const minor = BigInt(m.amountMinor)
  const unit = 10n ** BigInt(digits)
  const whole = new Intl.NumberFormat(lang).format(minor / unit)
  const rest = minor % unit
  return m.currency + '\u00a0' + whole + (rest ? '.' + String(rest).padStart(digits, '0') : '')
}

// times is the price of several.
export function times(m: Money, n: number): Money {
  return { ...m, amountMinor: m.amountMinor * n }
}
