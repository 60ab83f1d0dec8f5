// What an import reads and writes: the jobs of another queue in our words, and the source that gives them up one batch at a time.
// ◄── cli/commands/import.ts · next: run.ts

import type { NewJob } from '../core/job.js'
import type { Queryable } from '../core/job-store.js'
import type { StoredError } from '../core/json.js'
import type { RetryPolicy } from '../core/retry.js'

export type ImportSystem = 'bullmq' | 'pg-boss' | 'graphile-worker'

/** Where a job stood in the old system. One that failed and is tried again is waiting or delayed. */
export type OldKind = 'waiting' | 'delayed' | 'failed'
export const OLD_KINDS: readonly OldKind[] = ['waiting', 'delayed', 'failed']

/** What an old system knows about a job, in our words and units. Nothing of it is checked yet. */
export interface OldJob {
  /** Names it within its source, also among jobs that had its id before. */
  readonly key: string
  /** As its users know it. */
  readonly id: string
  readonly kind: OldKind
  readonly type: string
  readonly queue: string
  /** JSON text. */
  readonly payload: string
  /** Higher first. */
  readonly priority: number
  /** Null: it waits for a worker alone. */
  readonly runAtMs: number | null
  readonly attemptsMade: number
  readonly maxAttempts: number
  /** Null: the defaults of Holdfast. */
  readonly retry: RetryPolicy | null
  readonly timeoutMs: number | null
  readonly idempotencyKey: string | null
  readonly group: string | null
  readonly tags: readonly string[]
  readonly trace: string | null
  /** Of a failed job. */
  readonly error: StoredError | null
  /** What it has that has no counterpart here. */
  readonly lacks: readonly string[]
}

/** A schedule of an old system. */
export interface OldSchedule {
  /** As the old system finds it. */
  readonly ref: string
  /** As it is shown, and called here unless it cannot be. */
  readonly name: string
  readonly type: string
  readonly queue: string
  /** JSON text. */
  readonly payload: string
  readonly priority: number
  /** An expression, or a span in milliseconds. */
  readonly when: { readonly cron: string } | { readonly everyMs: number }
  readonly zone: string
  readonly untilMs: number | null
  /** When the old system makes its next job; null where it does not say. */
  readonly nextAtMs: number | null
  readonly maxAttempts: number | null
  readonly catchUp: 'skip' | 'latest' | 'all'
  readonly catchUpMax: number
  readonly lacks: readonly string[]
  /** Why it cannot be brought over, or null. */
  readonly problem: string | null
  /** Whether the old system can be made to forget it. */
  readonly isRemovable: boolean
}

/** Where a job of the old system is found again. */
export interface OldRef {
  readonly queue: string
  readonly id: string
  readonly kind: OldKind
  /** The list or set of the old system that it was seen in. */
  readonly place: string
}

/** One page of what waits in the old system, in the order in which it would run. */
export interface OldPage {
  readonly refs: readonly OldRef[]
  /** Where the next page begins; null at the end. */
  readonly next: string | null
}

/** What is left to the old system. */
export interface LeftThere {
  /** Running: their workers finish them. */
  readonly active: number
  /** Jobs that wait for others, or that others wait for. */
  readonly inFlows: number
}

/** A job that was taken from the old system, or would be. */
export interface Planned {
  readonly old: OldJob
  readonly job: NewJob
  /** Of a job that is dead from the start. */
  readonly death: { readonly attempt: number; readonly error: StoredError } | null
}

/** A job that an earlier import took and may not have written. */
export interface Parked {
  readonly old: OldJob
  readonly takenAtMs: number
}

export interface Move {
  /** The jobs to move, at most a batch. Those that a worker has taken meanwhile are left to it. */
  readonly refs: readonly OldRef[]
  /** The store's time, kept with what is parked. */
  readonly takenAtMs: number
  /** Called for each that is still there; null leaves it where it is. */
  readonly plan: (old: OldJob, takenAtMs: number) => Planned | null
  /** Writes what was planned: in the source's transaction when there is one, and otherwise repeatably. */
  readonly write: (planned: readonly Planned[], tx?: Queryable) => Promise<void>
}

/** Another queue that jobs are taken from. */
export interface Source {
  readonly system: ImportSystem
  /** Part of the ids of its jobs: it tells two sources of one kind apart. */
  readonly name: string
  /** What is in the way of reading it, as errors; nothing when all is well. */
  check(): Promise<void>
  left(): Promise<LeftThere>
  /** What waits, from `after` on. */
  list(kinds: readonly OldKind[], after: string | null): Promise<OldPage>
  /** The jobs as they are now; those that are gone are left out. Changes nothing. */
  look(refs: readonly OldRef[]): Promise<readonly OldJob[]>
  /**
   * Takes jobs so that no worker of the old system runs them, has them written, and then removes them there. Where that is not one
   * transaction, they are parked meanwhile: an import that ends in between leaves them to the next one.
   */
  move(move: Move): Promise<void>
  /** What earlier imports have parked, at most `limit`. */
  parked(limit: number): Promise<readonly Parked[]>
  /** Removes what is parked and written. */
  confirm(olds: readonly OldJob[]): Promise<void>
  schedules(): Promise<readonly OldSchedule[]>
  /** Makes the old system forget a schedule, and the job it has made for its next time if no worker has that. */
  removeSchedule(schedule: OldSchedule): Promise<void>
  close(): Promise<void>
}
