// What a job is, as it is written, claimed and settled. views.ts has how it is shown. ◄── client/prepare.ts · next: client/group-commit.ts

import type { Settlement } from './decide.js'
import type { ClaimedFlow, NewJobFlow, SettledFlow } from './flow/carried.js'
import type { FlowRefusal } from './flow/views.js'
import type { StoredError } from './json.js'
import type { ParkedFor, ParkedOn } from './kept/kept.js'
import type { JobLimits } from './limits.js'
import type { HasOrigin } from './origin.js'
import type { JobState } from './states.js'

/** How long an idempotency key keeps others away: while its job is unfinished, or for a time from its enqueue. */
export interface IdempotencyKey {
  readonly key: string
  /** Null: until the job is finished. Otherwise this long, whatever becomes of the job. */
  readonly ttlMs: number | null
}

/** One job as enqueue writes it: facts only, checked and serialised. */
export interface NewJob extends NewJobFlow {
  readonly id: string
  readonly queue: string
  readonly type: string
  /** JSON text. */
  readonly payload: string
  /** Version of the payload's shape; 1 unless its definition says otherwise. */
  readonly version: number
  readonly priority: number
  /** When it may run: at a time, after a delay by the store's clock, or immediately (null). */
  readonly when: { readonly runAtMs: number } | { readonly delayMs: number } | null
  readonly limits: JobLimits
  readonly idempotencyKey: IdempotencyKey | null
  /** Ids of the jobs it comes after. */
  readonly after: readonly string[]
  readonly onParentDead: 'cancel' | 'run'
  readonly tags: readonly string[]
  /** W3C trace context of the enqueue, kept with the job. */
  readonly trace: string | null
  /** The job whose handler enqueued it, if one did. */
  readonly enqueuedBy?: string | undefined
}

/** The answer for one job of an enqueue. */
export type Enqueued =
  | {
      readonly id: string
      readonly created: boolean
      readonly state: JobState
      /** Present when the job that has the key took this one's payload, and when the enqueue claimed the job as well. */
      readonly replaced?: true
      readonly claimed?: ClaimedJob
    }
  /** Nothing was written for this one: a job it comes after does not exist, or flow control refuses it. */
  | { readonly id: string; readonly unknownParent: string }
  | { readonly id: string; readonly refused: FlowRefusal }

/** A claim on a job: its id and the number of that claim. Everything a worker writes matches both. The queue is where a store that
 *  keeps queues apart finds the job. */
export interface Lease {
  readonly id: string
  /** Grows with every claim of the job, also across a failover that lost the last commits. */
  readonly fence: number
  readonly queue: string
}

/** The lease alone, of anything that carries one. */
export function leaseOf({ id, fence, queue }: Lease): Lease {
  return { id, fence, queue }
}

/** A name for a lease, different for every lease of one job. */
export function leaseName({ id, fence }: Pick<Lease, 'id' | 'fence'>): string {
  return `${id} ${fence}`
}

/** A job that a worker has claimed. */
export interface ClaimedJob extends Lease, ClaimedFlow, HasOrigin {
  readonly type: string
  /** JSON text. */
  readonly payload: string
  readonly version: number
  readonly priority: number
  /** Counted by this claim: 1 for the first. */
  readonly attempt: number
  readonly crashes: number
  readonly createdAtMs: number
  /** The job's own bounds. */
  readonly limits: JobLimits
  /** The bounds its queue sets for jobs that have none of their own. */
  readonly queueLimits: JobLimits
  readonly idempotencyKey: IdempotencyKey | null
  readonly tags: readonly string[]
  readonly trace: string | null
}

/** One settlement on its way to the store. */
export interface SettledJob extends Lease, SettledFlow {
  readonly settlement: Settlement
  /** JSON text of the handler's result, or null. */
  readonly result: string | null
  /** Why the attempt failed. Kept as a failed attempt when present. */
  readonly error: StoredError | null
  /** How long the handler ran, or null when none did. */
  readonly ranMs: number | null
  /** Freed when the job is finished, unless the key lasts for a fixed time. */
  readonly idempotencyKey: IdempotencyKey | null
  /** What a job waits for that leaves its slot: a signal when it is scheduled, its children when it is blocked. */
  readonly wait?: ParkedFor
  readonly children?: ParkedOn
}

/** Progress and log lines of a running job. */
export interface JobNote extends Lease {
  /** JSON text, or null to leave it as it is. */
  readonly progress: string | null
  readonly logs: readonly { readonly atMs: number; readonly text: string }[]
}
