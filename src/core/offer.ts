// A worker's offer to the client of its own process: jobs that are enqueued while it has idle slots and nobody stands in line
// go straight to it. They are claimed by the statement that writes them, which saves a claim, a commit and the way between.

import type { ClaimedJob, NewJob } from './job.js'

/** Which of the jobs of an enqueue are to be claimed with it, and for whom. */
export interface ClaimOnEnqueue {
  readonly worker: string
  readonly leaseMs: number
  /** The first so many of the jobs: all of one queue, ready at once, without key and parents. */
  readonly count: number
}

/** An offer that was taken up. It ends with one of its two calls. */
export interface Offer {
  readonly claim: ClaimOnEnqueue
  /** The store has answered: these are the worker's now. */
  claimed(jobs: readonly ClaimedJob[]): void
  /** Nothing came of it, or nobody knows. */
  failed(): void
}

/** What a client knows of the workers in its process. */
export interface LocalWorkers {
  /** Whether one is running. */
  isWorking(): boolean
  /** Resolves when an idle one whose claim is under way knows more, after a few milliseconds at most; null when there is
   *  nothing to wait for. Jobs written meanwhile would have to stand in line. */
  soonIdle(): Promise<void> | null
  /** Asks who would take the first of these jobs as they are written; null when nobody would. */
  offer(jobs: readonly NewJob[]): Offer | null
}

/** Whether a job is ready the moment it is written and asks nobody: almost every one. */
export function isPlain(job: NewJob): boolean {
  return job.when === null && job.idempotencyKey === null && job.after.length === 0
}
