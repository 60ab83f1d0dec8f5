// What the store shows: jobs, queues, workers, and how many there are.

import type { JobFlow } from './flow/job-flow.js'
import type { QueueFlow } from './flow/settings.js'
import type { StoredError } from './json.js'
import type { StepView, WaitView } from './kept/kept.js'
import type { JobLimits } from './limits.js'
import type { OutboxView } from './outbox.js'
import type { DeadReason, JobState } from './states.js'

/** One failed attempt, as shown. */
export interface AttemptView {
  readonly attempt: number
  readonly worker: string | null
  readonly startedAt: Date | null
  readonly finishedAt: Date
  readonly error: StoredError
}

/** A job as shown to people and programs. */
export interface JobView {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: JobState
  readonly payload: unknown
  readonly version: number
  readonly priority: number
  readonly attempt: number
  readonly crashes: number
  /** The limit that holds, the job's own or its queue's or the default. */
  readonly maxAttempts: number
  /** When it may run, for a job whose time is set; null for one that may run immediately or has finished. */
  readonly runAt: Date | null
  readonly createdAt: Date
  /** When the last attempt began; of a running job, when it was claimed. */
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly result: unknown
  readonly reason: DeadReason | null
  /** Why it died, or why its last attempt failed. */
  readonly error: StoredError | null
  /** Failed attempts, oldest first. */
  readonly attempts: readonly AttemptView[]
  readonly worker: string | null
  readonly leasedUntil: Date | null
  readonly cancelRequested: boolean
  readonly progress: unknown
  readonly logs: readonly { readonly at: Date; readonly text: string }[]
  /** What its handler has kept, in the order in which it began; absent when there is nothing. */
  readonly steps?: readonly StepView[]
  /** The signal it waits for; absent when it waits for none. */
  readonly wait?: WaitView
  readonly tags: readonly string[]
  readonly idempotencyKey: string | null
  readonly after: readonly string[]
  readonly onParentDead: 'cancel' | 'run'
  /** The schedule and tick that made it, or null. */
  readonly schedule: { readonly name: string; readonly tick: Date } | null
  /** The job whose handler enqueued it; absent for one that was enqueued elsewhere. */
  readonly enqueuedBy?: string | undefined
  /** Its group and limits; absent for a plain job. */
  readonly flow?: JobFlow | undefined
  /** Set while the job is in the outbox alone: the store does not have it yet, or will never have it. */
  readonly outbox?: OutboxView
  /** Each time an operator requeued it, oldest first. */
  readonly requeues: readonly { readonly number: number; readonly at: Date; readonly by: string }[]
}

/** A job in a list: without what makes it heavy. */
export type JobSummary = Omit<
  JobView,
  'attempts' | 'logs' | 'steps' | 'wait' | 'progress' | 'result' | 'requeues' | 'payload' | 'outbox'
>

/** How a finished job ended; for waiting on it. */
export interface Ending {
  readonly id: string
  readonly state: 'succeeded' | 'dead' | 'cancelled'
  /** JSON text, or null. */
  readonly result: string | null
  readonly reason: DeadReason | null
  readonly error: StoredError | null
}

/** Settings of a queue, kept in the store. */
export interface QueueSettings {
  readonly limits: JobLimits
  /** How long finished jobs are kept. */
  readonly retentionMs?: number
  /** Absent when the queue sets nothing about flow control. */
  readonly flow?: QueueFlow
  /** Over how many shards its new jobs are spread. Absent for one. */
  readonly spread?: number
}

export interface QueueView {
  readonly name: string
  readonly paused: boolean
  readonly settings: QueueSettings
}

/** One line about a worker's process. */
export interface WorkerBeat {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly running: number
  readonly draining: boolean
  readonly version: string
  /** The types it has handlers for; null for any. */
  readonly types: readonly string[] | null
  /** Some of the jobs it runs, at most WORKER_JOBS_MAX, those that have run longest first. */
  readonly jobs: readonly WorkerJob[]
  /** The children that run its handlers; null when it has none. */
  readonly children: ChildrenView | null
  /** How much longer than usual it may be silent, because its process sleeps. Absent: not at all. */
  readonly restMs?: number
}

/** The children of a worker. */
export interface ChildrenView {
  /** How many are ready to run handlers. */
  readonly running: number
  /** How many have ended by themselves or by force since the worker started, without those that were replaced in good order. */
  readonly restarts: number
}

/** The most jobs a worker reports. */
export const WORKER_JOBS_MAX = 50

/** A job in a worker's hands, as the worker reports it. */
export interface WorkerJob {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly attempt: number
  /** By the store's clock, as well as the worker knows it. */
  readonly startedAtMs: number
}

export interface WorkerView extends WorkerBeat {
  readonly startedAt: Date
  readonly seenAt: Date
}

/** How much is where, in one queue or in all. */
export interface QueueStats {
  readonly blocked: number
  readonly scheduled: number
  readonly ready: number
  readonly running: number
  readonly retrying: number
  readonly dead: number
  /** Age of the job that has been ready longest, in seconds; 0 when none is. */
  readonly oldestAgeS: number
  /** Of the newest ATTEMPTS_WINDOW jobs that succeeded or died, 99 in 100 took no more attempts; 0 when there are none. */
  readonly attemptsP99: number
  /** False when a count is over COUNT_EXACT_MAX and therefore estimated from a sample. */
  readonly isExact: boolean
}

/** Up to this many jobs in a state are counted one by one. */
export const COUNT_EXACT_MAX = 100_000
/** How many finished jobs attemptsP99 looks at, the newest first. */
export const ATTEMPTS_WINDOW = 1_000
