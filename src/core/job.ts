// What a job is, as it is written, claimed, settled and shown.

import type { Settlement } from './decide.js'
import type { StoredError } from './json.js'
import type { JobLimits } from './limits.js'
import type { CatchUp, Overlap } from './schedule.js'
import type { DeadReason, JobState } from './states.js'

/** How long an idempotency key keeps others away: while its job is unfinished, or for a time from its enqueue. */
export interface IdempotencyKey {
  readonly key: string
  /** Null: until the job is finished. Otherwise this long, whatever becomes of the job. */
  readonly ttlMs: number | null
}

/** One job as enqueue writes it: facts only, checked and serialised. */
export interface NewJob {
  readonly id: string
  readonly queue: string
  readonly type: string
  /** JSON text. */
  readonly payload: string
  /** Version of the payload's shape; 1 unless its definition says otherwise. */
  readonly version: number
  readonly priority: number
  /** When it may run: at a time, after a delay by the store's clock, or at once (null). */
  readonly when: { readonly runAtMs: number } | { readonly delayMs: number } | null
  readonly limits: JobLimits
  readonly idempotencyKey: IdempotencyKey | null
  /** Ids of the jobs it comes after. */
  readonly after: readonly string[]
  readonly onParentDead: 'cancel' | 'run'
  readonly tags: readonly string[]
  /** W3C trace context of the enqueue, kept with the job. */
  readonly trace: string | null
}

/** What became of one job of an enqueue call. */
export type Enqueued =
  | {
      readonly id: string
      readonly created: boolean
      readonly state: JobState
      /** Present when the enqueue claimed it as well. */
      readonly claimed?: ClaimedJob
    }
  /** Nothing was written for this one: a job it comes after does not exist. */
  | { readonly id: string; readonly unknownParent: string }

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

/** What tells leases apart, those of one job too. */
export function leaseName({ id, fence }: Pick<Lease, 'id' | 'fence'>): string {
  return `${id} ${fence}`
}

/** A job in the hands of a worker. */
export interface ClaimedJob extends Lease {
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

/** A lease that ran out, with what is needed to decide about its job. */
export interface ExpiredJob extends Lease {
  readonly type: string
  readonly worker: string
  readonly attempt: number
  readonly crashes: number
  readonly createdAtMs: number
  readonly expiredMs: number
  /** False when it is known that no handler started under this lease. */
  readonly started: boolean
  readonly limits: JobLimits
  readonly queueLimits: JobLimits
  readonly idempotencyKey: IdempotencyKey | null
}

/** One settlement on its way to the store. */
export interface SettledJob extends Lease {
  readonly settlement: Settlement
  /** JSON text of the handler's result, or null. */
  readonly result: string | null
  /** Why the attempt failed. Kept as a failed attempt when present. */
  readonly error: StoredError | null
  /** How long the handler ran, or null when none did. */
  readonly ranMs: number | null
  /** Freed when the job is finished and the key lasts only so long. */
  readonly idempotencyKey: IdempotencyKey | null
}

/** Progress and log lines of a running job. */
export interface JobNote extends Lease {
  /** JSON text, or null to leave it as it is. */
  readonly progress: string | null
  readonly logs: readonly { readonly atMs: number; readonly text: string }[]
}

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
  /** When it may run, for a job whose time is set; null for one that may run at once or has finished. */
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
  readonly tags: readonly string[]
  readonly idempotencyKey: string | null
  readonly after: readonly string[]
  readonly onParentDead: 'cancel' | 'run'
  /** The schedule and tick that made it, or null. */
  readonly schedule: { readonly name: string; readonly tick: Date } | null
  /** Each time an operator requeued it, oldest first. */
  readonly requeues: readonly { readonly number: number; readonly at: Date; readonly by: string }[]
}

/** A job in a list: without what makes it heavy. */
export type JobSummary = Omit<JobView, 'attempts' | 'logs' | 'progress' | 'result' | 'requeues' | 'payload'>

/** A value at a path of a payload. */
export type JsonScalar = string | number | boolean | null

/** One condition on the payload: what is found by going down the path, through keys of objects and indices of arrays. */
export interface PayloadMatch {
  readonly path: readonly string[]
  /** It is one of these; null asks only that something is there. */
  readonly anyOf: readonly JsonScalar[] | null
}

export type Comparison = '=' | '>' | '>=' | '<' | '<='

export interface NumberMatch {
  readonly op: Comparison
  readonly value: number
}

/** A comparison with a moment, or with an age by the store's clock at the call: `<` an age is younger than it. */
export type TimeMatch =
  | { readonly op: Exclude<Comparison, '='>; readonly atMs: number }
  | { readonly op: Exclude<Comparison, '='>; readonly ageMs: number }

/**
 * What a list is narrowed to; `parseFilter` reads it from text. Fields that are absent match everything, all that are
 * present must match. A list of values matches any of them; an empty one matches nothing in a store, and has no text, so
 * callers of the library are refused with `invalid_filter`. Lists of lists are terms that must match each. In queues, types and workers `*` stands for any run of characters.
 */
export interface JobFilter {
  readonly states?: readonly JobState[]
  readonly notStates?: readonly JobState[]
  readonly queues?: readonly string[]
  readonly notQueues?: readonly string[]
  readonly types?: readonly string[]
  readonly notTypes?: readonly string[]
  /** For each term, the job carries one of its tags. */
  readonly tags?: readonly (readonly string[])[]
  /** The job carries none of these. */
  readonly notTags?: readonly string[]
  readonly reasons?: readonly DeadReason[]
  /** The worker that runs it, or ran it last. */
  readonly workers?: readonly string[]
  readonly ids?: readonly string[]
  /** Idempotency keys. */
  readonly keys?: readonly string[]
  /** Names of the schedules that made it. */
  readonly schedules?: readonly string[]
  /** Fingerprints of the errors of dead jobs. */
  readonly fingerprints?: readonly string[]
  /** For each term, the name or the message of its error holds one of the texts; A to Z count as a to z. */
  readonly errors?: readonly (readonly string[])[]
  readonly payload?: readonly PayloadMatch[]
  readonly attempt?: readonly (readonly NumberMatch[])[]
  readonly priority?: readonly (readonly NumberMatch[])[]
  readonly created?: readonly TimeMatch[]
  readonly finished?: readonly TimeMatch[]
}

/** Settings of a queue, kept in the store. */
export interface QueueSettings {
  readonly limits: JobLimits
  /** How long finished jobs are kept. */
  readonly retentionMs?: number
}

export interface QueueView {
  readonly name: string
  readonly paused: boolean
  readonly settings: QueueSettings
}

/** A schedule as it is kept. */
export interface Schedule {
  readonly name: string
  readonly cron: string
  readonly zone: string
  readonly queue: string
  readonly type: string
  /** JSON text. */
  readonly payload: string
  readonly version: number
  readonly priority: number
  readonly limits: JobLimits
  readonly tags: readonly string[]
  readonly catchUp: CatchUp
  readonly catchUpMax: number
  readonly overlap: Overlap
}

export interface ScheduleView extends Schedule {
  readonly paused: boolean
  readonly nextAt: Date | null
  readonly lastAt: Date | null
  readonly lastJobId: string | null
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
}

/** The most jobs a worker tells about. */
export const WORKER_JOBS_MAX = 50

/** A job in a worker's hands, as the worker tells it. */
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
