import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'
import { openProps } from './tokens.ts'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

// Every file in src/entries is a page's script.
const entries = readdirSync(here('src/entries')).filter(f => f.endsWith('.ts')).sort()

// Names are stable, so that a build is one change of each file and not a new
// file: the server adds a version to the addresses.
export default defineConfig({
  root: here('.'),
  base: '/static/',
  publicDir: false,
  plugins: [openProps(here('src')), svelte()],
  resolve: { alias: { '@lib': here('src/lib'), '@texts': here('../internal/web/texts') } },
  test: { include: ['src/**/*.test.ts'] },
  build: {
    outDir: here('../internal/web/dist'),
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    assetsDir: '',
    reportCompressedSize: false,
    rolldownOptions: {
      input: Object.fromEntries(entries.map(f => [f.replace(/\.ts$/, ''), here('src/entries/' + f)])),
      output: {
        entryFileNames: '[name].js',
        chunkFileNames: '[name].js',
        assetFileNames: '[name][extname]',
        codeSplitting: { groups: [{ name: 'shared', test: /node_modules[\\/](svelte|esm-env|clsx)[\\/]|[\\/]src[\\/]lib[\\/]/ }] }
      }
    }
  }
})
