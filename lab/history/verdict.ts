// The checker's verdict on a history.

import type { DeadReason } from '../../src/core/states.js'

/** The invariants, by the names they have in docs/chaos.md. */
export const INVARIANTS = {
  I1: 'no accepted job is lost',
  I2: 'no job from nowhere, no job twice',
  I3: 'no two leases of a job at one time',
  I4: 'no write after the fence',
  I5: 'attempts and crashes are counted and bounded',
  I6: 'effects once in a transaction, bounded outside',
  I7: 'each tick once, none missed, none early',
  I8: 'nothing before its time',
  I9: 'priority, within a window',
  I10: 'order within a group',
  I11: 'limits on how many run and start',
  I12: 'no lease runs out without a fault',
  I13: 'finished is finished',
  I14: 'every job finishes after the last fault',
  I15: 'a worker that lost its lease stops',
  I16: 'keys, parents and cancels are respected',
  I17: 'a job that can start is started in time, and a finished one settled in time',
  I18: 'a fault is no refusal',
  I19: 'a day past its retention is dropped, and no live job with it',
  I20: 'while a breaker is open only probes start',
  I21: 'no group with a job and a free slot is forgotten',
  I22: 'nothing is held beside a free slot and an idle worker',
} as const

export type Invariant = keyof typeof INVARIANTS

export interface Violation {
  readonly invariant: Invariant
  /** The job's id, or null for a schedule or for an enqueue without a job. */
  readonly job: string | null
  readonly message: string
}

/** How many milliseconds something took, over all occurrences. */
export interface Spread {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  /** How many took at most this long; the last bucket has no bound. */
  readonly buckets: readonly { readonly upToMs: number | null; readonly count: number }[]
}

export interface Counts {
  events: number
  /** Enqueue calls: made, promised, refused, and with an unknown result. */
  asked: number
  accepted: number
  refused: number
  unknown: number
  /** Answers lost between the store and a process. */
  answersLost: number
  jobs: number
  claims: number
  extensions: number
  succeeded: number
  cancelled: number
  dead: Record<DeadReason, number>
  unfinished: number
  retries: number
  releases: number
  /** Leases that expired and were rescued. */
  rescues: number
  lostLeases: number
  effectsInTransaction: number
  effectsOutside: number
  /** Outside effects beyond the first of each job. */
  effectsRepeated: number
  ticks: number
  /** How often another server took over without the last writes of the one before. */
  takeovers: number
  /** Handlers that started under a claim which a takeover had undone. */
  claimsUndone: number
  /** Accepted jobs that a takeover lost, in runs where the store does not promise more. */
  acceptedUndone: number
  /** The same, by the kind of fault that made the other server take over. */
  acceptedUndoneBy: Record<string, number>
  /** The longest that a job waited while a worker that could take it was idle; 0 where all waits were within the bound. */
  longestIdleWaitMs: number
  /** Faults that began, by kind. */
  faults: Record<string, number>
  flow: FlowCounts
}

/** What flow control had to do in a run. */
interface FlowCounts {
  /** Jobs with a group or limits, and their claims. */
  jobs: number
  starts: number
  /** Groups that had jobs. */
  groups: number
  /** How often limits, groups and breakers were changed. */
  changes: number
  /** Claims that had to keep the order of a group while an earlier or later job of it waited. */
  ordered: number
  /** Claims that took the last slot of a limit or group, by which it was full. */
  filled: number
  /** Starts while a breaker was not closed. */
  probes: number
  /** Groups that the store found forgotten. */
  repaired: number
  /** The longest that a group with a free slot waited beside an idle worker; 0 where all waits were within the bound. */
  longestHeldMs: number
}

export interface Verdict {
  /** No violation. Whether the run proves anything is `counted`. */
  readonly ok: boolean
  readonly counted: { readonly ok: boolean; readonly reasons: readonly string[] }
  /** The first VIOLATIONS_MAX of them. */
  readonly violations: readonly Violation[]
  readonly violationCount: number
  readonly counts: Readonly<Counts>
  /** Claims after the first of a job, by how the claim before had ended. */
  readonly redeliveries: {
    readonly afterRescue: number
    readonly afterFailure: number
    readonly afterRelease: number
    readonly afterRequeue: number
  }
  /** From the expiry of a lease to the rescue of its job. */
  readonly rescue: Spread
  /** From the expiry of a lease to the job's next claim, for jobs that were ready after the rescue. If all workers are busy, that includes
   *  the wait behind jobs of higher priority. */
  readonly recovery: Spread
  /** Claims of a job while one of higher priority was ready in its queue, and the longest that one had been ready. */
  readonly inversions: { readonly count: number; readonly longestMs: number }
}

/** The most violations a verdict lists. */
export const VIOLATIONS_MAX = 1_000

const BOUNDS_MS = [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000]

/** Sums up how long something took. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  const upTo = (bound: number) => values.reduce((count, value) => count + (value <= bound ? 1 : 0), 0)
  const below = BOUNDS_MS.map(upTo)
  const buckets = BOUNDS_MS.map((upToMs, index) => ({ upToMs, count: below[index]! - (below[index - 1] ?? 0) }))
  const rest = { upToMs: null, count: values.length - (below[below.length - 1] ?? 0) }
  return { count: values.length, p50: at(0.5), p99: at(0.99), max: at(1), buckets: [...buckets, rest] }
}
