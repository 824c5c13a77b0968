import { expect, it } from 'vitest'
import { clock } from './clock'

const at = (time: string) => `2026-12-03T${time}.000Z`
const date = (time: string) => new Date(at(time)).toUTCString()
const near = (time: string) => expect(Math.abs(clock.now() - Date.parse(at(time)))).toBeLessThan(1000)

it('takes the first time it is told, whoever says it', () => {
  clock.check(date('10:00:00'))
  near('10:00:00')
})

it.each([
  ['takes the newest time that an answer names, earlier as well', () => clock.sync(at('10:59:00')), '10:59:00'],
  ['does not go back by the Date of an answer out of a cache', () => clock.check(date('10:58:11')), '11:00:00'],
  ['catches up when the device has slept', () => clock.check(date('11:30:00')), '11:30:00'],
  ['is not moved by whole seconds', () => clock.check(date('11:00:04')), '11:00:00'],
  ['is not moved by a Date that is none', () => clock.check('soon'), '11:00:00'],
  ['is not moved by an answer that names no time', () => clock.sync(null), '11:00:00']
])('%s', (_, told, then) => {
  clock.sync(at('11:00:00'))
  told()
  near(then)
})
