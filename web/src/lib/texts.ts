import type common from '@texts/common.en.json'
import type desk from '@texts/desk.en.json'
import type scan from '@texts/scan.en.json'
import type seats from '@texts/seats.en.json'
import type shop from '@texts/shop.en.json'
import { lang, page } from './page'

// The groups that each page gets are chosen in internal/web/texts.go.
type Texts = typeof common & typeof shop & typeof seats & typeof scan & typeof desk

export type Key = keyof Texts

type Plural<K> = K extends `${infer Base}.other` ? Base : never

// PluralKey names a text that has one wording for one thing and another for more:
// "places.one" and "places.other" in the files are the key "places" of tn.
export type PluralKey = Plural<Key>

type Values = Record<string, string | number>

const fill = (text: string, values: Values) => text.replace(/\{(\w+)\}/g, (all, name: string) => String(values[name] ?? all))

// t is a text in the page's language; {name} in it stands for a value.
export function t(key: Key, values: Values = {}): string {
  return fill(page.texts[key] ?? key, values)
}

// has is whether there is a text for a key that is put together.
export function has(key: string): key is Key {
  return key in page.texts
}

const plural = new Intl.PluralRules(lang)

// tn is the text for a number of things; {n} in it is that number.
export function tn(key: PluralKey, n: number, values: Values = {}): string {
  const form = plural.select(n) === 'one' ? 'one' : 'other'
  return fill(page.texts[`${key}.${form}`] ?? key, { n: number(n), ...values })
}

const numbers = new Intl.NumberFormat(lang)

// number shows a number as the page's language writes it.
export const number = (n: number) => numbers.format(n)
