// Reservations: an enqueue reserves idle slots of a worker in its own process, and the statement that writes the jobs leases them to
// that worker. This saves a claim, a commit and a round trip. It is done only while no other job is known to wait before them.

import type { ClaimedJob, NewJob } from './job.js'

/** Which of the jobs of an enqueue are leased as they are written, and to which worker. */
export interface ClaimOnEnqueue {
  readonly worker: string
  readonly leaseMs: number
  /** How many of the first jobs: all of one queue, ready immediately, without key and parents. */
  readonly count: number
}

/** Slots that a worker keeps for an enqueue. It ends with one of its two calls. */
export interface Reservation {
  readonly claim: ClaimOnEnqueue
  /** The store has answered: these jobs are the worker's now. */
  claimed(jobs: readonly ClaimedJob[]): void
  /** No job was leased, or the answer was lost. */
  failed(): void
}

/** What a client knows of the workers in its process. */
export interface LocalWorkers {
  /** Whether one is running. */
  isWorking(): boolean
  /** Resolves when the claim that an idle worker has in flight is answered, after a few milliseconds at most; null when there is none.
   *  Jobs written before that cannot be leased as they are written. */
  claimInFlight(): Promise<void> | null
  /** Reserves slots for the first of these jobs; null when no worker takes them. */
  reserve(jobs: readonly NewJob[]): Reservation | null
}

/** Whether a job is ready when it is written and depends on no other job or key, like almost every one. */
export function isPlain(job: NewJob): boolean {
  return (
    job.when === null &&
    job.idempotencyKey === null &&
    job.after.length === 0 &&
    job.flow === undefined &&
    job.lifo === undefined
  )
}
