import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenProps from 'open-props'
import type { Plugin } from 'vite'

const tokens = OpenProps as unknown as Record<string, string>
const used = /var\((--[\w-]+)/g

function* styles(folder: string): Generator<string> {
  for (const e of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, e.name)
    if (e.isDirectory()) yield* styles(path)
    else if (/\.(css|svelte)$/.test(e.name)) yield readFileSync(path, 'utf8')
  }
}

// openProps answers the import of "virtual:tokens.css" with the tokens that our
// styles name, and no others: the whole set is larger than the rest of the page.
export function openProps(folder: string): Plugin {
  const name = 'virtual:tokens.css'
  return {
    name: 'open-props-used',
    resolveId: id => (id === name ? '\0' + name : undefined),
    load(id) {
      if (id !== '\0' + name) return undefined
      const found = new Map<string, string>()
      const add = (text: string) => {
        for (const [, token] of text.matchAll(used)) {
          const value = token && tokens[token]
          if (!value || found.has(token)) continue
          found.set(token, value)
          add(value)
        }
      }
      for (const text of styles(folder)) add(text)
      const lines = [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => `${k}:${v};`)
      return `@layer tokens{:root{${lines.join('')}}}`
    }
  }
}
