// What the server answers, as the dashboard reads it. Times are ISO strings, lengths of time end in Ms, ages in S.

import type { DeadReason, JobState } from '../../../src/core/states.js'

export type { JobState }

/** Why an attempt failed. */
export interface ErrorView {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
}

export interface JobSummary {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: JobState
  readonly version: number
  readonly priority: number
  readonly attempt: number
  readonly crashes: number
  readonly maxAttempts: number
  readonly runAt: string | null
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly reason: DeadReason | null
  readonly error: ErrorView | null
  readonly worker: string | null
  readonly leasedUntil: string | null
  readonly cancelRequested: boolean
  readonly tags: readonly string[]
  readonly idempotencyKey: string | null
  readonly after: readonly string[]
  readonly onParentDead: 'cancel' | 'run'
  readonly schedule: { readonly name: string; readonly tick: string } | null
}

export interface AttemptView {
  readonly attempt: number
  readonly worker: string | null
  readonly startedAt: string | null
  readonly finishedAt: string
  readonly error: ErrorView
}

export interface JobView extends JobSummary {
  readonly payload: unknown
  readonly result: unknown
  readonly attempts: readonly AttemptView[]
  readonly progress: unknown
  readonly logs: readonly { readonly at: string; readonly text: string }[]
  readonly requeues: readonly { readonly number: number; readonly at: string; readonly by: string }[]
  /** Paths whose values were masked before they left the server. */
  readonly redacted?: readonly string[]
}

export interface JobPage {
  readonly jobs: readonly JobSummary[]
  readonly cursor: string | null
  /** How many jobs were looked through for this page. */
  readonly searched?: number
  /** How far back that was, when the search ended before the jobs did. */
  readonly searchedTo?: string | null
}

export interface Count {
  readonly count: number
  readonly exact: boolean
}

export interface Explanation {
  readonly state: JobState
  readonly summary: string
  readonly reasons: readonly { readonly code: string; readonly text: string }[]
  /** What to do about it. */
  readonly next: readonly string[]
}

export interface RetryPolicy {
  readonly backoff: 'exponential' | 'linear' | 'fixed' | readonly number[]
  readonly baseMs: number
  readonly capMs: number
  readonly jitter: boolean
}

export interface QueueSettings {
  readonly limits: {
    readonly maxAttempts?: number
    readonly retry?: RetryPolicy
    readonly timeoutMs?: number | null
    readonly maxAgeMs?: number | null
  }
  readonly retentionMs?: number
}

export interface QueueOverview {
  readonly name: string
  readonly paused: boolean
  readonly settings: QueueSettings
  readonly blocked: number
  readonly scheduled: number
  readonly ready: number
  readonly running: number
  readonly retrying: number
  readonly dead: number
  readonly oldestAgeS: number
  /** Live workers that serve it, and their slots. */
  readonly workers: number
  readonly slots: number
  /** Per second, over the last minute. */
  readonly rates: {
    readonly enqueued: number
    readonly succeeded: number
    readonly failed: number
    readonly dead: number
  }
}

export interface Overview {
  readonly queues: readonly QueueOverview[]
  readonly exact: boolean
  readonly now: string
}

/** The states a job waits or runs in, as the depth chart stacks them. */
export const DEPTH_STATES = ['running', 'ready', 'retrying', 'scheduled', 'blocked'] as const

type DepthState = (typeof DEPTH_STATES)[number]

export interface SeriesPoint {
  readonly at: string
  readonly depth: Readonly<Record<DepthState | 'dead', number>> | null
  readonly oldestAgeS: number | null
  readonly enqueued: number
  readonly succeeded: number
  readonly failed: number
  readonly retried: number
  readonly dead: number
}

export interface DeadGroup {
  readonly fingerprint: string
  /** Of its newest job; null when it died without one. */
  readonly error: { readonly name: string; readonly message: string } | null
  readonly count: number
  readonly exact: boolean
  readonly types: readonly string[]
  readonly queues: readonly string[]
  readonly firstAt: string
  readonly lastAt: string
  readonly newestId: string
}

export type BulkAction = 'cancel' | 'requeue' | 'discard'

export interface Bulk {
  readonly id: string
  readonly action: BulkAction
  /** As text in the filter language. */
  readonly filter: string
  readonly actor: string
  readonly state: 'waiting' | 'running' | 'done' | 'cancelled' | 'failed'
  readonly perSecond: number | null
  /** How many matched when it was asked for, where that is known. */
  readonly expected: number | null
  /** Tried so far: done or refused. */
  readonly matched: number
  readonly done: number
  readonly refused: number
  readonly createdAt: string
  readonly updatedAt: string
  readonly error: string | null
}

/** What a bulk action would do. */
export interface DryRun {
  readonly matches: number
  readonly exact: boolean
  /** How many of them the action can change, where the server says so. */
  readonly can?: number
}

export interface ScheduleView {
  readonly name: string
  readonly cron: string
  readonly zone: string
  readonly queue: string
  readonly type: string
  readonly payload: unknown
  readonly priority: number
  readonly tags: readonly string[]
  readonly catchUp: 'skip' | 'latest' | 'all'
  readonly catchUpMax: number
  readonly overlap: 'allow' | 'skip'
  readonly paused: boolean
  readonly nextAt: string | null
  readonly lastAt: string | null
  readonly lastJobId: string | null
  readonly next: readonly string[]
}

export interface WorkerView {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly queues: readonly string[]
  /** The types it has handlers for; null takes any. */
  readonly types: readonly string[] | null
  readonly concurrency: number
  readonly running: number
  readonly draining: boolean
  readonly version: string
  readonly startedAt: string
  readonly seenAt: string
  readonly heartbeatAgeMs: number
  readonly live: boolean
  readonly jobs: readonly { readonly id: string; readonly type: string; readonly startedAt: string | null }[]
}

export interface AuditEntry {
  readonly line: number
  readonly at: string
  readonly actor: string
  readonly action: string
  readonly job: string | null
  readonly target: string | null
  readonly details: unknown
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[]
  /** Where the next page begins, or null at the end. */
  readonly next: number | null
}

export interface Warning {
  readonly code: string
  readonly level: 'error' | 'warning' | 'note'
  readonly text: string
  readonly queue?: string | null
  /** What to do about it. */
  readonly next?: string | null
}

export interface Me {
  readonly name: string
  readonly scopes: readonly string[]
  /** Whether they are kept to some queues. */
  readonly isKept: boolean
  readonly via: string
  readonly environment: { readonly name: string; readonly colour: string | null } | null
  readonly version: string
  readonly store: string
  readonly readOnly: boolean
}
