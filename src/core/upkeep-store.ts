// What keeps jobs moving without anybody's request: promote, rescue, fire, prune, count. Upkeep takes this part of the contract. Any
// process may call any of it at any time. Each call does a bounded piece of work, and a repetition changes nothing. store.ts has the
// rules that hold for all three parts.

import type { JobFlow } from './flow/job-flow.js'
import type { IdempotencyKey, Lease, NewJob } from './job.js'
import type { JobStore } from './job-store.js'
import type { JobLimits } from './limits.js'
import type { BulkProgress, Horizon, QueueTally } from './operating.js'
import type { OperatorStore } from './operator-store.js'
import type { OutboxPart } from './outbox.js'
import type { ScheduleView } from './schedule.js'
import type { WorkerBeat } from './views.js'

export interface Promotion {
  /** How many jobs became ready because their time had come or their parents had finished. */
  readonly promoted: number
  readonly queues: readonly string[]
  /** How long until the next job is due, or null when none is waiting for a time. */
  readonly nextDueMs: number | null
  /** How long the first job whose time had come had been due; null when there was none. */
  readonly lateMs: number | null
  /** How many groups under flow control had a job that might go and that no claim would have looked at. It stays 0 while every process
   *  is of this version; absent for a store that has nothing to repair. */
  readonly repaired?: number
}

/** A lease that ran out, with what is needed to decide about its job. */
export interface ExpiredJob extends Lease {
  readonly type: string
  readonly worker: string
  readonly attempt: number
  /** 0 for one that has finished a step under this lease. */
  readonly crashes: number
  readonly createdAtMs: number
  readonly expiredMs: number
  /** False when it is known that no handler started under this lease. */
  readonly started: boolean
  readonly limits: JobLimits
  readonly queueLimits: JobLimits
  readonly idempotencyKey: IdempotencyKey | null
  readonly flow?: JobFlow | undefined
}

export interface Expired {
  readonly jobs: readonly ExpiredJob[]
  readonly nowMs: number
  /** How long the store has been up, or null when it cannot know. After an outage living workers must get the chance to
   *  extend first. */
  readonly upMs: number | null
}

export interface DueSchedules {
  readonly schedules: readonly (ScheduleView & { readonly nextAtMs: number })[]
  readonly nowMs: number
  /** How long until the next schedule is due, or null when there is none. */
  readonly nextDueMs: number | null
}

export interface FireRequest {
  readonly name: string
  /** The due time the firing was computed from. The call does nothing when the schedule has moved on since. */
  readonly expectedNextAtMs: number
  /** The jobs to make, one for each tick, oldest first. */
  readonly ticks: readonly { readonly tickMs: number; readonly job: NewJob }[]
  readonly nextAtMs: number | null
}

export interface Fired {
  /** False when another process was first. */
  readonly fired: boolean
  /** Ids of the jobs that were made; ticks skipped because of overlap make none. */
  readonly jobs: readonly string[]
}

export interface PruneOptions {
  /** How long finished jobs are kept where their queue sets nothing. */
  readonly retentionMs: number
}

export interface PruneAuditOptions {
  /** Lines older than this are dropped. */
  readonly keptMs: number
  /** The newest lines that are kept; older ones are dropped, whatever their age. */
  readonly linesMax: number
}

export interface Pruned {
  /** Whole days of finished jobs that were dropped, as YYYY-MM-DD. */
  readonly days: readonly string[]
  /** Rows removed one by one: expired keys, old ticks, gone workers. */
  readonly rows: number
  /** Finished jobs removed before their day, because their queue keeps them for a shorter time than another. */
  readonly early?: number
  /** Days that could not be dropped or prepared and are passed over for now, oldest first, at most 100. */
  readonly postponed: readonly PostponedDay[]
  /** False when there is more to do that need not wait for the usual time: a call does a bounded piece of work. */
  readonly isDone: boolean
}

/** A day that retention passes over for now. */
export interface PostponedDay {
  /** As YYYY-MM-DD. */
  readonly day: string
  /** In plain words, with what to do about it where something can be done. */
  readonly why: string
}

/** What a process that has nothing to do asks once in a while, see core/quiet.ts. */
export interface PulseRequest {
  /** The queues of its workers. */
  readonly queues: readonly string[]
  /** Its workers, which live. */
  readonly beats: readonly WorkerBeat[]
  /** Whether it takes part in upkeep. */
  readonly isUpkeep: boolean
}

/** What is to be done, and when. */
export interface Pulse {
  /** Whether anybody holds a lease. */
  readonly isRunning: boolean
  /** How long until the next job with a time is due, and the next tick of a schedule; null when there is none. */
  readonly nextDueMs: number | null
  readonly nextTickMs: number | null
  /** Those of the queues in which a job waits. */
  readonly queues: readonly string[]
  /** Whether there is other work for upkeep: bulk actions, cancels that wait for a lock, links to be looked at. */
  readonly hasUpkeep: boolean
}

/** What upkeep does, with what it needs of the other parts. */
export interface UpkeepStore
  extends Pick<JobStore, 'settle' | 'parts'>,
    Pick<OperatorStore, 'bulks' | 'health' | 'flowCounts'> {
  /** Makes jobs ready whose time has come, and those whose parents have finished. */
  promote(limit: number): Promise<Promotion>

  /** Lists leases that have run out. Rescue decides about their jobs and settles them with `onlyExpired`. */
  expired(limit: number): Promise<Expired>

  /** Lists schedules that are due and not paused. Their queues take turns, in the order of their names, beginning after `afterQueue`,
   *  and the schedules of one queue come in the order of their times: many of one queue do not keep another waiting. */
  due(limit: number, afterQueue?: string): Promise<DueSchedules>

  /** Records ticks and makes their jobs, in one transaction, unless another process was first. */
  fire(request: FireRequest): Promise<Fired>

  /** Does one batch of one bulk action that is due, in one transaction. Null when none is. */
  stepBulk(): Promise<BulkProgress | null>

  /** Drops finished jobs past their retention and what else has run out, and prepares the days to come. Whole days go when the longest
   *  retention of all queues is over; jobs of queues with a shorter one are removed before that, one by one. */
  prune(options: PruneOptions): Promise<Pruned>
  /** Drops the oldest lines of the audit log, a bounded number in a call, and returns how many. Only the owner of the store may:
   *  an operator must not be able to remove what was recorded about them. */
  pruneAudit(options: PruneAuditOptions): Promise<number>

  /** Adds counts to the current ten seconds. They are for showing: this is the one call that counts twice when repeated. */
  tally(tallies: readonly QueueTally[]): Promise<void>
  /** Records how many jobs are in each state, once in ten seconds for all processes. True when this call did. */
  sample(): Promise<boolean>

  /** The oldest snapshot that a transaction holds, when it is older than a second; null otherwise, and where there is no such thing. */
  horizon(): Promise<Horizon | null>

  /** Sends what waits in the outbox. Absent for a store that has none. */
  readonly outbox?: OutboxPart

  /** Whether announcements of other processes arrive now. Absent, as the four below, where a process never rests. */
  hears?(): boolean
  /** Reports workers, and answers what is to be done and when: one statement. */
  pulse?(request: PulseRequest): Promise<Pulse>
  /** The process rests from now on, or works again: connections that it does not need are ended. */
  rest?(mode: 'look' | 'sleep' | null): void
  /** Ends the rest of other processes. */
  stir?(): void
  /** Tells other processes that a job becomes due in this time. */
  announceDue?(dueInMs: number): void
}
