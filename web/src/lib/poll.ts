import { untrack } from 'svelte'
import { onWake } from './clock'

// poll looks again and again. The look says how many seconds later the next one
// is due, or null for the end. A page that is shown again, or is back online, looks at
// once. It returns how to stop. What the first look reads is no reason for an effect
// to begin anew: it would, with every answer, and never wait.
export function poll(look: () => Promise<number | null>): () => void {
  let timer = 0
  let running = false
  let over = false
  const run = async () => {
    if (running || over) return
    clearTimeout(timer)
    running = true
    const wait = await look()
    running = false
    if (over || wait === null) return stop()
    timer = window.setTimeout(run, wait * 1000)
  }
  const unwake = onWake(() => void run())
  function stop() {
    over = true
    clearTimeout(timer)
    unwake()
  }
  untrack(() => void run())
  return stop
}
