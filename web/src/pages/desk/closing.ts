import { has, t } from '@lib/texts'

// closing words why an order ended. The ledger says it in a code; where staff released
// the hold, with their reason; a code without words is shown as it is.
export function closing(code: string): string {
  const reason = /^ReleaseHold by \S+: (.+)$/s.exec(code)?.[1]
  if (reason) return t('closed.byStaff', { reason })
  const key = `closed.${code.replaceAll(' ', '_')}`
  return has(key) ? t(key) : code
}
