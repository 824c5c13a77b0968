import { page, type Money } from './page'

// payHref is where paying for a hold begins: the provider's card page, which leads
// back to ours, or ours at once where there is nothing to pay. Whoever gives up goes
// to where the button was.
export function payHref(holdId: string, amount: Money): string {
  const back = `${location.origin}/pay/${holdId}`
  if (amount.amountMinor === 0 || !page.cardPage) return back
  const elsewhere = location.pathname.startsWith('/pay/') ? `${location.origin}/orders` : location.href
  const query = new URLSearchParams({
    mode: 'redirect', lang: page.lang, amount: String(amount.amountMinor), currency: amount.currency, return_url: back, cancel_url: elsewhere
  })
  return `${page.cardPage}?${query}`
}

// payKey is the idempotency key of paying for a hold with a card. It is made of what
// it means, so that a reload, another tab and the way back all carry the same one.
export function payKey(holdId: string, token: string): string {
  const plain = `pay:${holdId}:${token}`
  if (plain.length <= 128) return plain
  let sum = 0n
  for (const c of plain) sum = BigInt.asUintN(256, sum * 1_000_003n + BigInt(c.codePointAt(0) ?? 0))
  return `pay:${holdId}:${sum.toString(36)}`
}
