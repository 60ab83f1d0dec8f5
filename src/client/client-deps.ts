// What a client stands on, and how it is set.

import type { TallySink } from '../core/operating.js'
import type { LocalWorkers } from '../core/reserve.js'
import type { JobTracer } from '../core/tracer.js'
import type { OperatorCallsDeps } from './operator-calls.js'

/** What a client needs. */
export interface ClientDeps extends Omit<OperatorCallsDeps, 'payloadBytesMax' | 'nextId' | 'enqueue'> {
  readonly workers: LocalWorkers
  /** Counts what is enqueued here. */
  readonly tally?: TallySink
  readonly tracer?: JobTracer | null
}

/** A client's settings, complete. */
export interface ClientSettings {
  readonly payloadBytesMax: number
  readonly enqueueTimeoutMs: number
  readonly bufferJobsMax: number
}
