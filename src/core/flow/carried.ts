// What a job under flow control carries through its life. All of it is absent for a plain job.

import type { JobFlow } from './job-flow.js'
import type { HoldOff } from './views.js'

/** A job that may be under flow control. */
interface HasFlow {
  /** Its group and limits. A store may also set it for a claimed plain job of a queue that has flow control. */
  readonly flow?: JobFlow | undefined
}

/** What a claim says. */
export interface ClaimedFlow extends HasFlow {
  /** How many jobs of its group this claim took as one batch, this one among them (`ClaimRequest.batches`). Absent when it was taken alone. */
  readonly batch?: number | undefined
}

/** What an enqueue says. */
export interface NewJobFlow extends HasFlow {
  /** Gives its payload to the job that has its key, which lasts until that job is finished. */
  readonly replace?: ReplaceRule | undefined
  /** Of its priority it begins to wait before those that were enqueued earlier, behind those that waited for a time. It holds until it is
   *  claimed first: a retry goes to the end as any. Never together with a group. */
  readonly lifo?: true | undefined
}

/** What a settlement says. `flow` is what the claimed job carried: its slots are freed with the lease. */
export interface SettledFlow extends HasFlow {
  /** Others that wait as well, from the moment the settlement is applied. */
  readonly holdOff?: HoldOff | undefined
  /** What the attempt really cost. Rates that count cost get back, or lose, the difference to the job's cost. */
  readonly spent?: number | undefined
}

/**
 * What happens when the key of a job is held by another that has not finished: that one takes the new payload, version, tags and
 * trace, and everything else of the new job is dropped. While it runs, a successor is written instead, blocked until it has ended
 * whatever its end, and takes the payloads that come meanwhile; the key passes on to it.
 */
export interface ReplaceRule {
  /** How long a job waits for another payload before it runs; each one that comes starts the wait again. 0 to run as soon as it may. */
  readonly waitMs: number
  /** It waits no longer than this from its enqueue; null for any time. */
  readonly maxWaitMs: number | null
}
