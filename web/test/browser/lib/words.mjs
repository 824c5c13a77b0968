// The words of the pages, from the catalogue that the pages have them from: a test
// finds a button by its name, as people do, in either language.
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { runInNewContext } from 'node:vm'
import { root } from './demo.mjs'

const dir = path.join(root, 'internal', 'web', 'texts')
const groups = readdirSync(dir).filter(f => f.endsWith('.en.json')).map(f => f.slice(0, -'.en.json'.length))

function load(lang) {
  return Object.assign({}, ...groups.map(g => JSON.parse(readFileSync(path.join(dir, `${g}.${lang}.json`), 'utf8'))))
}
const catalogue = { en: load('en'), 'zh-Hant': load('zh-Hant') }

/** words returns t(key, values) of a language. */
export const words = lang => (key, values = {}) => {
  const text = catalogue[lang][key]
  if (text === undefined) throw new Error(`no text ${key} in ${lang}`)
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name])
}

/** pattern returns a text as a pattern that allows any values. */
export const pattern = lang => key => {
  const plain = words(lang)(key, new Proxy({}, { get: () => '\0' }))
  return new RegExp(plain.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('\0', '.+'))
}

// The waiting page is one file and carries its words itself.
const waiting = runInNewContext(`(${/const TEXTS = (\{[\s\S]*?\n\})\n/.exec(readFileSync(path.join(dir, '..', 'static', 'queue.html'), 'utf8'))[1]})`)

// The simulator's pages are no part of the product, so their words are named here.
const simulator = {
  en: { number: 'Card number', expiry: 'Expiry (MM/YY)', cvc: 'Security code', use: 'Use this card', approve: 'Confirm payment', refuse: 'Refuse' },
  'zh-Hant': { number: '卡號', expiry: '有效期限（月/年）', cvc: '安全碼', use: '使用這張卡', approve: '確認付款', refuse: '拒絕付款' }
}

/** ownWords are the words of both, with ahead as a pattern. */
export function ownWords(lang) {
  const { ahead, aheadOne, next } = waiting[lang]
  return { ...waiting[lang], ...simulator[lang], ahead: new RegExp([ahead, aheadOne, next].join('|')) }
}
