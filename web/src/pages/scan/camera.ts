import { sleep } from '@lib/api'
import { decoder, type Decode } from './decoder'

// Why there is no picture.
export type CameraTrouble = 'insecure' | 'denied' | 'none' | 'busy' | 'unread'

// side is the width of the square that is decoded, in pixels: a code that fills a
// third of it is read, and a phone keeps up.
const side = 640

// pause between two looks, in seconds: a person does not notice it, a battery does.
const pause = 0.08

// again is how long a code has to be out of sight before it counts as shown again, in
// milliseconds.
const again = 1500

// Seen lets a code through once per showing: a camera sees the same ticket many times
// a second.
export class Seen {
  private code = ''
  private at = -Infinity

  // fresh takes what a look found and says whether it is a new showing.
  fresh(code: string | null, now: number): boolean {
    if (code === null) return false
    const known = code === this.code && now - this.at < again
    this.code = code
    this.at = now
    return !known
  }
}

export function troubleOf(e: unknown): CameraTrouble {
  switch ((e as { name?: string }).name) {
    case 'NotAllowedError':
    case 'SecurityError':
      return 'denied'
    case 'LoadError':
      return 'unread'
    case 'NotReadableError':
    case 'AbortError':
      return 'busy'
  }
  return 'none'
}

// Camera shows the back camera in a video element and reads codes from it.
export class Camera {
  private stream: MediaStream | null = null
  private running = false
  private readonly canvas = document.createElement('canvas')

  // lost is called when the picture ends by itself.
  constructor(private readonly video: HTMLVideoElement, private readonly scanned: (code: string) => void, private readonly lost: () => void) {
    this.canvas.width = this.canvas.height = side
  }

  // start fails where there is no picture; stop frees the camera then, too.
  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({
      audio: false,
      video: { facingMode: { ideal: 'environment' }, width: { ideal: 1280 }, height: { ideal: 720 } }
    })
    for (const track of this.stream.getVideoTracks()) track.addEventListener('ended', this.lost)
    const decode = await decoder().catch(() => Promise.reject(Object.assign(new Error(), { name: 'LoadError' })))
    this.video.srcObject = this.stream
    await this.video.play()
    this.running = true
    void this.look(decode)
  }

  stop() {
    this.running = false
    this.stream?.getTracks().forEach(track => track.stop())
    this.video.srcObject = null
    this.stream = null
  }

  // hasTorch is whether the camera has a light that can be switched.
  hasTorch(): boolean {
    const track = this.stream?.getVideoTracks()[0]
    return Boolean((track?.getCapabilities?.() as { torch?: boolean } | undefined)?.torch)
  }

  async torch(on: boolean) {
    await this.stream?.getVideoTracks()[0]?.applyConstraints({ advanced: [{ torch: on } as MediaTrackConstraintSet] })
  }

  private async look(decode: Decode) {
    const seen = new Seen()
    const pen = this.canvas.getContext('2d', { willReadFrequently: true })
    while (this.running) {
      const { videoWidth: w, videoHeight: h } = this.video
      if (w && pen && !document.hidden) {
        // The middle of the picture is what the frame on the screen shows.
        const cut = Math.min(w, h)
        pen.drawImage(this.video, (w - cut) / 2, (h - cut) / 2, cut, cut, 0, 0, side, side)
        const code = await decode(this.canvas).catch(() => null)
        if (this.running && seen.fresh(code, performance.now())) this.scanned(code as string)
      }
      await sleep(pause)
    }
  }
}
