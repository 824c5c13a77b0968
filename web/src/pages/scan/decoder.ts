// Decode reads the QR symbol of a picture, or null where there is none.
export type Decode = (picture: HTMLCanvasElement) => Promise<string | null>

interface Detector {
  detect(picture: HTMLCanvasElement): Promise<{ rawValue: string }[]>
}

interface DetectorClass {
  new (options: { formats: string[] }): Detector
  getSupportedFormats(): Promise<readonly string[]>
}

// native is the browser's own detector where it reads QR symbols.
async function native(): Promise<Detector | null> {
  const found = (globalThis as { BarcodeDetector?: DetectorClass }).BarcodeDetector
  try {
    if (found && (await found.getSupportedFormats()).includes('qr_code')) return new found({ formats: ['qr_code'] })
  } catch {
    // It is there in name only.
  }
  return null
}

// ours is WebAssembly from our own server; nothing is ever asked of another one.
async function ours(): Promise<Detector> {
  const [{ BarcodeDetector, prepareZXingModule }, { default: wasm }] = await Promise.all([
    import('barcode-detector/ponyfill'),
    import('zxing-wasm/reader/zxing_reader.wasm?url')
  ])
  await prepareZXingModule({ overrides: { locateFile: (path: string, prefix: string) => (path.endsWith('.wasm') ? wasm : prefix + path) }, fireImmediately: true })
  return new BarcodeDetector({ formats: ['qr_code'] }) as Detector
}

export async function decoder(): Promise<Decode> {
  const detector = (await native()) ?? (await ours())
  return async picture => (await detector.detect(picture))[0]?.rawValue || null
}
