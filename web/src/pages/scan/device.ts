import type { Schema } from '@lib/page'

// Device is the gate as the API describes it.
export type Device = Schema['Device']
