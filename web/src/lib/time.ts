import { lang } from './page'

// Dates are worded as the server's pages word them (showTime in internal/web/pages.go):
// the day before the month, 24 hours.
const locale = lang === 'en' ? 'en-GB' : lang
const day: Intl.DateTimeFormatOptions = lang === 'en' ? { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' } : { year: 'numeric', month: 'long', day: 'numeric' }
const minute: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }
const second: Intl.DateTimeFormatOptions = { ...minute, second: '2-digit' }

const words = (at: string | number, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, options).format(new Date(at))

// inZone words an instant in an event's zone, and names the zone where the reader
// may be elsewhere.
export function inZone(at: string, zone: string): string {
  const text = words(at, { ...day, ...minute, timeZone: zone })
  return zone === Intl.DateTimeFormat().resolvedOptions().timeZone ? text : `${text} (${zone})`
}

// here words an instant in the reader's own zone, and names it.
export function here(at: string): string {
  return words(at, { ...day, ...second, timeZoneName: 'short' })
}

// timeOfDay is hours, minutes and seconds, in the reader's own zone where none is given.
export function timeOfDay(at: string | number, zone?: string): string {
  return words(at, { ...second, ...(zone && { timeZone: zone }) })
}
