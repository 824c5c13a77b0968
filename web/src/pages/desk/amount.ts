// minor reads an amount as people write it, "1,200" or "12.50", in minor units; null
// where it is none, or has more decimals than the currency.
export function minor(text: string, digits: number): number | null {
  const m = /^(\d{1,12})(?:\.(\d+))?$/.exec(text.trim().replace(/,(?=\d{3}(\D|$))/g, ''))
  if (!m) return null
  const rest = m[2] ?? ''
  if (rest.length > digits) return null
  return Number(m[1] + rest.padEnd(digits, '0'))
}

// major writes minor units as minor reads them.
export function major(amount: number, digits: number): string {
  const text = String(amount).padStart(digits + 1, '0')
  return digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text
}
