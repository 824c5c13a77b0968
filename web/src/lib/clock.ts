// The server's time, counted on by the device's monotonic clock from the last
// answer that named it. What the device takes for the time of day changes nothing.
class ServerClock {
  private base = Number.NaN
  private mark = 0

  // sync takes the time that an answer carried; the newest answer counts.
  sync(serverTime: string | null | undefined) {
    const at = serverTime ? Date.parse(serverTime) : Number.NaN
    if (Number.isNaN(at)) return
    this.base = at
    this.mark = performance.now()
  }

  // check takes an answer's Date when we are further behind than its whole seconds
  // explain: the device has slept, or the page itself came out of a cache. It never
  // goes back: an older Date is that of an answer out of a cache.
  check(date: string | null) {
    if (date && (!this.known || Date.parse(date) - this.now() > 5000)) this.sync(date)
  }

  // known is whether any answer has named the time yet.
  get known() {
    return !Number.isNaN(this.base)
  }

  // now is the server's time in milliseconds since 1970.
  now() {
    return this.known ? this.base + performance.now() - this.mark : Date.now()
  }
}

export const clock = new ServerClock()

// gap is how far the two clocks of the device may come apart between two looks
// before we take it that it slept.
const gap = 3000

// onWake calls back when the page may have missed time: it was hidden, restored
// from the browser's cache, offline, or the device slept. It returns how to stop.
export function onWake(call: () => void): () => void {
  let wall = Date.now()
  let steady = performance.now()
  const look = () => {
    const apart = Math.abs(Date.now() - wall - (performance.now() - steady))
    wall = Date.now()
    steady = performance.now()
    if (apart > gap) call()
  }
  const shown = () => {
    if (!document.hidden) call()
  }
  const restored = (e: PageTransitionEvent) => {
    if (e.persisted) call()
  }
  const timer = setInterval(look, 1000)
  document.addEventListener('visibilitychange', shown)
  addEventListener('pageshow', restored)
  addEventListener('online', call)
  return () => {
    clearInterval(timer)
    document.removeEventListener('visibilitychange', shown)
    removeEventListener('pageshow', restored)
    removeEventListener('online', call)
  }
}

// clockFace is minutes and seconds, with hours where there are any.
export function clockFace(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000))
  const two = (n: number) => String(n).padStart(2, '0')
  const hours = Math.floor(s / 3600)
  const rest = two(s % 60)
  return hours ? `${hours}:${two(Math.floor((s % 3600) / 60))}:${rest}` : `${Math.floor(s / 60)}:${rest}`
}
