import { clock } from './clock'
import type { components } from './openapi'

// The shapes of the API's answers, generated from its description.
export type Schema = components['schemas']
export type Money = Schema['Money']
export type Tier = Schema['Tier']
export type Hold = Schema['Hold']
export type Order = Schema['Order']
export type Ticket = Schema['Ticket']
export type Event = Schema['Event']
export type Problem = Schema['Problem']

// What every page's data has. A page adds its own (see pages.go) and reads it by
// pageData.
export interface Page {
  lang: 'en' | 'zh-Hant'
  texts: Record<string, string>
  // digits is how many decimals a currency has.
  digits: Record<string, number>
  // cardPage is where a card becomes a payment token; empty where there is none.
  cardPage: string
  signedIn: boolean
  // serverTime is when the server made the page.
  serverTime: string
}

function read(): Page {
  const island = globalThis.document?.getElementById('page')?.textContent
  return island ? (JSON.parse(island) as Page) : { lang: 'en', texts: {}, digits: {}, cardPage: '', signedIn: false, serverTime: '' }
}

export const page: Page = read()
export const lang = page.lang
clock.sync(page.serverTime)

// pageData is the page's data with what only this page has.
export function pageData<T>(): Page & T {
  return page as Page & T
}
