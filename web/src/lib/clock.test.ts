import { describe, expect, it } from 'vitest'
import { clock } from './clock'

const at = (time: string) => `2026-12-03T${time}.000Z`
const date = (time: string) => new Date(at(time)).toUTCString()
const near = (time: string) => expect(Math.abs(clock.now() - Date.parse(at(time)))).toBeLessThan(1000)

describe('the server clock', () => {
  it('takes the first time it is told, whoever says it', () => {
    clock.check(date('10:00:00'))
    near('10:00:00')
  })
  it('takes the newest time that an answer names, earlier or later', () => {
    clock.sync(at('12:00:00'))
    clock.sync(at('11:00:00'))
    near('11:00:00')
  })
  it('does not go back by the Date of an answer out of a cache', () => {
    clock.sync(at('11:00:00'))
    clock.check(date('10:58:11'))
    near('11:00:00')
  })
  it('catches up when the device has slept', () => {
    clock.sync(at('11:00:00'))
    clock.check(date('11:30:00'))
    near('11:30:00')
  })
  it('is not moved by whole seconds, nor by what is no time', () => {
    clock.sync(at('11:00:00'))
    clock.check(date('11:00:04'))
    clock.check('soon')
    clock.sync(null)
    near('11:00:00')
  })
})
