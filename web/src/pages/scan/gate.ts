import { newKey } from '@lib/api'
import type { Problem, Schema } from '@lib/page'
import { Kept, undecided, type Staff } from '../staff/api'

// Redemption is a granted claim as the API answers it.
export type Redemption = Schema['Redemption']

export type Verdict =
  // admitted: the code is used. earlier says that it was this scan that used it, whose
  // answer was lost.
  | { kind: 'admitted'; redemption: Redemption; earlier: boolean }
  // claimed: somebody has to act and say so.
  | { kind: 'claimed'; redemption: Redemption }
  | { kind: 'refused'; problem: Problem }
  // undecided: no answer; the ticket may or may not be used by this scan.
  | { kind: 'undecided'; code: string; away: boolean }
  // signedOut: the device's credential counts no more.
  | { kind: 'signedOut' }

export type Outcome = 'admitted' | 'failed'

export interface Counts {
  admitted: number
  refused: number
}

// Pending maps a code to the transaction that nobody has answered yet.
type Pending = Record<string, string>

// Gate claims codes. A scan whose answer was lost keeps its transaction id until it is
// decided, through reloads too: sending the same one again can admit nobody twice and
// finds out what became of it.
export class Gate {
  private readonly pending: Kept<Pending>
  private readonly counted: Kept<Counts>
  private readonly shown: Kept<string>

  constructor(private readonly staff: Staff, device: string) {
    this.pending = new Kept<Pending>('usher.scan.open.' + device, {})
    this.counted = new Kept<Counts>('usher.scan.counts.' + device, { admitted: 0, refused: 0 })
    this.shown = new Kept<string>('usher.scan.shown.' + device, '')
  }

  counts(): Counts {
    return this.counted.read()
  }

  // open are the codes that are not decided.
  open(): string[] {
    return Object.keys(this.pending.read())
  }

  // current is the code that was being asked about when the page was last seen, if it is
  // not decided: whoever showed it stands there still.
  current(): string {
    const code = this.shown.read()
    return this.open().includes(code) ? code : ''
  }

  // setAside leaves the current scan undecided: it is asked about by hand from now on.
  setAside() {
    this.shown.drop()
  }

  private count(what: keyof Counts) {
    const n = this.counted.read()
    this.counted.write({ ...n, [what]: n[what] + 1 })
  }

  private close(code: string) {
    const { [code]: _, ...rest } = this.pending.read()
    this.pending.write(rest)
  }

  private closeTransaction(id: string) {
    this.pending.write(Object.fromEntries(Object.entries(this.pending.read()).filter(([, t]) => t !== id)))
  }

  // claim asks for one code.
  async claim(code: string): Promise<Verdict> {
    const known = this.pending.read()
    const transactionId = known[code] ?? newKey()
    // Written down before it is sent: a page that dies meanwhile asks with the same one.
    this.pending.write({ ...known, [code]: transactionId })
    this.shown.write(code)
    const r = await this.staff.ask<Redemption>('POST', '/v1/redemptions', { code, transactionId })
    if (r.status === 401) return { kind: 'signedOut' }
    if (undecided(r.status)) return { kind: 'undecided', code, away: r.status === 0 }
    const state = r.body && (r.codeStatus || r.body.status)
    // Until it is said what was done, a page that is loaded anew asks for the same claim.
    if (r.body && state === 'processing') return { kind: 'claimed', redemption: r.body }
    this.close(code)
    if (r.body && state === 'used') {
      this.count('admitted')
      return { kind: 'admitted', redemption: r.body, earlier: r.replayed }
    }
    this.count('refused')
    // A claim that is answered again may have been frozen or cancelled since.
    return { kind: 'refused', problem: r.problem ?? { type: '', title: '', status: 409, code: 'code_' + state } }
  }

  // confirm says what was done about a claimed code, until the server has it. It
  // returns null when no answer came: say it again.
  async confirm(redemption: Redemption, result: Outcome): Promise<Verdict | null> {
    const r = await this.staff.ask<Schema['Confirmation']>('POST', `/v1/redemptions/${redemption.redemptionId}/confirm`, { transactionId: redemption.transactionId, result })
    if (r.status === 401) return { kind: 'signedOut' }
    if (undecided(r.status)) return null
    this.closeTransaction(redemption.transactionId)
    // What was reported first counts: its answer may have been lost.
    const used = r.body?.status === 'used'
    this.count(used ? 'admitted' : 'refused')
    if (used) return { kind: 'admitted', redemption, earlier: false }
    return { kind: 'refused', problem: r.problem ?? { type: '', title: '', status: r.status, code: 'not_let_in' } }
  }
}
