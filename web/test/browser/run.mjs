// Runs the browser tests with one demo for all of them: node web/test/browser/run.mjs
// [FILE ...]. A file alone may as well be run by `node --test`, with a demo of its own.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { startDemo } from './lib/demo.mjs'

const dir = path.dirname(fileURLToPath(import.meta.url))
const files = process.argv.length > 2 ? process.argv.slice(2) : readdirSync(dir).filter(f => f.endsWith('.test.mjs')).sort().map(f => path.join(dir, f))

const { stop, ...demo } = await startDemo()
let code = 1
try {
  const tests = spawn(process.execPath, ['--test', '--test-concurrency=1', '--test-reporter=spec', ...files], {
    stdio: 'inherit', env: { ...process.env, BROWSER_TEST_DEMO: JSON.stringify(demo) }
  })
  code = await new Promise(resolve => tests.on('exit', (c, signal) => resolve(signal ? 1 : c)))
} finally {
  await stop()
}
process.exitCode = code
