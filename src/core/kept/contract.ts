// What long jobs add to the contract of a store (job-store.ts): what they keep between attempts.

import type { Lease } from '../job.js'
import type { JobState } from '../states.js'
import type { DoubtfulPage, KeptEntry, KeptSignal, OutputPage, Recalled } from './kept.js'

/** An entry, and the lease under which it is kept. */
export interface KeptOf extends Lease {
  readonly entry: KeptEntry
}

/** A signal on its way to a job. */
export interface NewSignal extends Omit<KeptSignal, 'atMs'> {
  readonly id: string
  readonly by: string
}

export type SignalResult =
  /** `woken` when the job waited for it and is ready now. Otherwise it is kept for the wait to come. */
  | { readonly id: string; readonly result: 'signalled'; readonly woken: boolean }
  /** The job has finished; there is none of that id; it has SIGNALS_MAX signals. */
  | { readonly id: string; readonly result: 'refused'; readonly state: JobState }
  | { readonly id: string; readonly result: 'missing' | 'full' }

// settle: with `wait` a job that is scheduled waits for a signal until its time. When more signals of that name were sent than it knew of,
// it is ready immediately, whichever came first. A job that waits has no lease, frees its group and its limits, and its attempt is not
// counted. Ready again it goes to the front lane, in an ordered group to its own place.
//
// settle: with `children` a job becomes blocked until those jobs have ended, as one that comes after them; also when they had before. It frees
// what a waiting job frees, and goes on in the same way. In an ordered group the jobs behind it go on meanwhile: its children may be among them.

export interface KeptStore {
  /** Everything that the job of this lease has kept. Null when the lease no longer holds. */
  recall(lease: Lease): Promise<Recalled | null>

  /** Keeps steps, effects and waits with their jobs, unless one of that kind and name has ended: that one stays as it is. Answers in
   *  order: false when the lease no longer holds. Then nothing is kept, also when the lease is lost while the call is under way. */
  keep(entries: readonly KeptOf[]): Promise<readonly boolean[]>

  /** Keeps each signal with its job, unless that has finished, and makes the job ready if it waits for it. A signal whose key the job has
   *  already changes nothing. All in one commit; those of one job in their order. Answers in order. */
  signal(signals: readonly NewSignal[]): Promise<readonly SignalResult[]>

  /** A page of the effects that were begun more than once, or whose outcome is not known although the attempt that began them is over. */
  doubtful(request: DoubtfulRequest): Promise<DoubtfulPage>

  /** Keeps output of running jobs, each at its offset, unless there is a chunk at that offset. Answers as `keep` does. */
  write(writes: readonly OutputWrite[]): Promise<readonly boolean[]>

  /** The next chunks of a job's output that begin at `from` or behind it, in order, about OUTPUT_PAGE_LENGTH characters. Null when there is no such job. */
  read(request: { readonly id: string; readonly from: number }): Promise<OutputPage | null>
}

export interface DoubtfulRequest {
  /** Of this job alone; null for all. */
  readonly id: string | null
  /** Of these queues alone; null for all. */
  readonly queues: readonly string[] | null
  /** From 1 to PAGE_MAX. */
  readonly limit: number
  /** Continue behind this one; null begins with the first. */
  readonly after: DoubtfulPage['next']
}

/** About how many characters one call of `read` returns. */
export const OUTPUT_PAGE_LENGTH: number = 256 * 1024

/** Output of one job, written together. */
export interface OutputWrite extends Lease {
  /** Where the first of the chunks begins; the others follow it. */
  readonly offset: number
  readonly chunks: readonly string[]
}
