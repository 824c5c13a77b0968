// What a tab remembers over a reload. A browser that keeps nothing only loses
// comfort: the server has the hold, and the visit.
import type { Schema } from '@lib/page'

export interface Asked { seatIds?: string[]; items?: Schema['ItemRequest'][]; best?: Schema['BestRequest'] }
type Admission = Pick<Schema['Admission'], 'admissionToken' | 'expiresAt'>

function read<T>(key: string): T | null {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? 'null') as T | null
  } catch {
    return null
  }
}

function write(key: string, value: unknown): void {
  try {
    sessionStorage.setItem(key, JSON.stringify(value))
  } catch {
    // Full, or forbidden.
  }
}

function drop(key: string): void {
  try {
    sessionStorage.removeItem(key)
  } catch {
    // Forbidden.
  }
}

// The waiting page leaves the admission here.
export const admission = (event: string): Admission | null => read('admission:' + event)
export const keepAdmission = (event: string, a: Admission): void => write('admission:' + event, a)
export const forgetAdmission = (event: string): void => drop('admission:' + event)

// A choice that nothing was asked for yet, and how the seats are shown. It goes on in
// the other language and after a reload.
export interface Choice { seatIds: string[]; items: Schema['ItemRequest'][]; list: boolean }
export const choice = (event: string): Choice | null => read('choice:' + event)
export const keepChoice = (event: string, c: Choice): void => write('choice:' + event, c)

// A request for places that was sent and not answered yet, with its key; refused is
// one that was answered by asking who the buyer is.
type Kept = Asked & { idempotencyKey: string; refused?: boolean }
export const asked = (event: string): Kept | null => read('asked:' + event)
export const keepAsked = (event: string, a: Kept): void => write('asked:' + event, a)
export const forgetAsked = (event: string): void => drop('asked:' + event)
