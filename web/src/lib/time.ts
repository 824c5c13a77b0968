import { lang } from './page'

// inZone words an instant in an event's zone, and names the zone where the reader
// may be elsewhere.
export function inZone(at: string, zone: string, options: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'short' }): string {
  const words = new Intl.DateTimeFormat(lang, { ...options, timeZone: zone }).format(new Date(at))
  return zone === Intl.DateTimeFormat().resolvedOptions().timeZone ? words : `${words} (${zone})`
}

// here words an instant in the reader's own zone.
export function here(at: string, options: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'short' }): string {
  return new Intl.DateTimeFormat(lang, options).format(new Date(at))
}
