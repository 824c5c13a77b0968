// What a gate hears and feels. Tones are made here: no file has to arrive first.
export type Tone = 'good' | 'bad' | 'open'

// Each tone is a list of [frequency in Hz, start, length in seconds].
const tones: Record<Tone, { wave: OscillatorType; notes: [number, number, number][]; shake: number[] }> = {
  good: { wave: 'sine', notes: [[880, 0, 0.12], [1318, 0.12, 0.2]], shake: [80] },
  bad: { wave: 'square', notes: [[196, 0, 0.22], [147, 0.26, 0.4]], shake: [250, 100, 250] },
  open: { wave: 'triangle', notes: [[440, 0, 0.12], [440, 0.24, 0.12], [440, 0.48, 0.12]], shake: [80, 80, 80, 80, 80] }
}

export class Signal {
  private context: AudioContext | null = null
  muted = false

  // wake is called from a touch or a key: a browser is silent before the first one.
  wake() {
    this.context ??= typeof AudioContext === 'undefined' ? null : new AudioContext()
    void this.context?.resume()
  }

  give(tone: Tone) {
    const { wave, notes, shake } = tones[tone]
    // A browser shakes nothing, and complains, before the first touch.
    if (navigator.userActivation?.hasBeenActive !== false) navigator.vibrate?.(shake)
    const c = this.context
    if (!c || this.muted || c.state !== 'running') return
    for (const [frequency, start, length] of notes) {
      const at = c.currentTime + start
      const gain = new GainNode(c, { gain: 0 })
      const source = new OscillatorNode(c, { type: wave, frequency })
      // A soft edge keeps a loudspeaker from clicking.
      gain.gain.setValueAtTime(0, at)
      gain.gain.linearRampToValueAtTime(0.25, at + 0.01)
      gain.gain.setValueAtTime(0.25, at + length - 0.03)
      gain.gain.linearRampToValueAtTime(0, at + length)
      source.connect(gain).connect(c.destination)
      source.start(at)
      source.stop(at + length)
    }
  }
}
