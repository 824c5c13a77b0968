// Burst tells the typing of a scanner from that of a person: a scanner sends a whole
// code at one go and ends it with Enter.
export class Burst {
  private text = ''
  private last = 0

  // gap is the most time between two keys of a scanner, in milliseconds: cheap radio
  // scanners take up to fifty, and a busy device hands keys on later. least is the
  // shortest code.
  constructor(private readonly gap = 500, private readonly least = 6) {}

  // key takes one key at its time and returns the code that it completes, or "".
  key(key: string, at: number): string {
    if (at - this.last > this.gap) this.text = ''
    this.last = at
    if (key === 'Enter') {
      const code = this.text
      this.text = ''
      return code.length >= this.least ? code : ''
    }
    if (key.length === 1) this.text += key
    return ''
  }
}

// isTicket reports whether a text has the shape of a ticket's code.
export const isTicket = (text: string) => /^[0-9a-z]{32}$/i.test(text.replace(/[\s-]/g, ''))

// onWedge hands over what a keyboard-wedge scanner types, wherever the focus is: the
// Enter of a scanner presses no button. In a field a person may type as well, so there
// only a ticket is taken out of what else it holds; the rest is the field's to send.
// It returns how to stop.
export function onWedge(scanned: (code: string) => void): () => void {
  const burst = new Burst()
  const down = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return
    const code = burst.key(e.key, e.timeStamp)
    const target = e.target
    if (!code || (target instanceof HTMLInputElement && !isTicket(code))) return
    e.preventDefault()
    e.stopPropagation()
    if (target instanceof HTMLInputElement) {
      // The field has caught the keys, too.
      target.value = target.value.endsWith(code) ? target.value.slice(0, -code.length) : target.value
      target.dispatchEvent(new Event('input', { bubbles: true }))
    }
    scanned(code)
  }
  addEventListener('keydown', down, { capture: true })
  return () => removeEventListener('keydown', down, { capture: true })
}
