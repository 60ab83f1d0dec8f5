// What happened in a run, recorded by two witnesses. The store writes an event in the transaction of the change itself. The
// processes write down each call before they make it, and each answer after they got it. The checker trusts the store about when
// things happened and the processes about what they were promised.
//
// One event is one line of JSON. Times `at` are the store's, in milliseconds since 1970, fractions allowed; `order` numbers
// the store's events in the order it made them. Times `mono` are a process's own and compare only within one run of that process.

import type { Rate } from '../../src/core/flow/settings.js'
import type { CatchUp } from '../../src/core/schedule.js'
import type { DeadReason, JobState } from '../../src/core/states.js'

/** A record of the store. All records of one transaction carry the same `tx`, if the store has transactions. */
interface Stored {
  readonly order: number
  readonly at: number
  readonly job: string
  readonly tx?: string
  /** The store's clock was set during its transaction, so its times are not compared. */
  readonly strayed?: boolean
  /** When it was committed, if that is known to be later. Others see it from then on, or a little later. */
  readonly committedAt?: number
  /** When its transaction began, if that is known to be earlier. What it looked at is not older than this. */
  readonly began?: number
}

/** Where a job that became ready waits in its ordered group: those with a lower number come first. Absent: it keeps the place it had, or comes
 *  behind all that were stored before it. */
interface Placed {
  readonly place?: number
}

/** A job was created. */
export interface JobStored extends Stored, Placed {
  readonly ev: 'stored'
  readonly queue: string
  readonly type: string
  readonly state: JobState
  readonly priority: number
  /** The caller's time for it, or the schedule's tick. */
  readonly runAt: number | null
  readonly maxAttempts: number
  readonly maxCrashes: number
  /** The key the producer made for it, unique in the run; null for jobs of schedules. */
  readonly key: string | null
  readonly idempotencyKey: string | null
  readonly after: readonly string[]
  readonly tick: { readonly schedule: string; readonly at: number } | null
  /** The tenant or entity it belongs to within its queue; absent or null for none. */
  readonly group?: string | null
  /** The limits it counts in beside that of its queue. Absent: none. */
  readonly limits?: readonly string[]
  /** What happens to it when a parent dies. Absent: not checked. */
  readonly onParentDead?: 'cancel' | 'run'
  /** How long its idempotency key holds; absent or null: until it is finished. */
  readonly keyTtlMs?: number | null
  /** Which effects its handler applies when it succeeds. Absent: not checked. */
  readonly effect?: 'in transaction' | 'outside' | 'both' | 'none'
}

export interface JobClaimed extends Stored {
  readonly ev: 'claimed'
  readonly fence: number
  /** Counted with this claim. */
  readonly attempt: number
  readonly worker: string
  readonly leasedUntil: number
}

export interface LeaseExtended extends Stored {
  readonly ev: 'extended'
  readonly fence: number
  readonly leasedUntil: number
}

/** A lease ended: its worker settled it, or it had expired (`rescued`). */
export interface JobSettled extends Stored, Placed {
  readonly ev: 'settled'
  readonly fence: number
  readonly to: JobState
  readonly reason: DeadReason | null
  /** The attempt count after it; a release gives one back. */
  readonly attempts: number
  readonly crashes: number
  /** When a retry or a released job may be claimed again; null for immediately or never. */
  readonly notBefore: number | null
  readonly rescued: boolean
}

/** The job became ready: its time had come, or its parents had finished. */
export interface JobPromoted extends Stored, Placed {
  readonly ev: 'promoted'
  /** Absent: ready. A job whose parents have finished may still have to wait for its time. */
  readonly to?: 'ready' | 'scheduled'
}

/** An operator's or caller's change of a job. */
export interface JobOperated extends Stored, Placed {
  readonly ev: 'operated'
  readonly action: 'cancel' | 'ask to cancel' | 'requeue' | 'discard' | 'update'
  readonly to: JobState
  /** The new time from which the job may be claimed, if an update changed it; null for immediately. Absent: unchanged. */
  readonly notBefore?: number | null
}

/** The job's effect was applied: in the transaction that settles it, or on its own. */
export interface EffectApplied extends Stored {
  readonly ev: 'effect'
  readonly fence: number
  readonly attempt: number
  readonly inTransaction: boolean
}

/** A schedule's tick was recorded. */
export interface TickFired {
  readonly ev: 'tick'
  readonly order: number
  readonly at: number
  readonly schedule: string
  readonly tick: number
  /** Null when the overlap rule skipped it. */
  readonly job: string | null
  readonly tx?: string
  readonly strayed?: boolean
  /** When its transaction began, if that is known. */
  readonly began?: number
}

/** Another server has taken over that did not have the last writes of the one before: what that one answered between these times may be
 *  gone. Claims on Redis do not wait for a replica; the other writes do where durability is `replicated`. */
export interface WritesUndone {
  readonly ev: 'undone'
  readonly order: number
  readonly at: number
  /** The last write that is left. */
  readonly from: number
  /** When the former server took no more. */
  readonly to: number
  readonly what: 'claims' | 'all'
  /** The kind of the fault that was on when the other one took over; null when none was. */
  readonly fault: string | null
}

/** A queue was paused, or resumed. */
export interface QueueOperated {
  readonly ev: 'queue'
  readonly isPaused: boolean
  readonly order: number
  readonly at: number
  readonly queue: string
}

/** A change of what flow control allows. What is lowered counts for claims that begin after it was surely visible. */
interface FlowChanged {
  readonly order: number
  readonly at: number
  readonly tx?: string
  readonly committedAt?: number
}

/** What bounds the jobs that run, and their starts; null for no bound. */
interface FlowBounds {
  readonly concurrency: number | null
  readonly rate: Rate | null
}

/** A limit was set, or its breaker moved. That of a queue is `queue:<queue>`. */
export interface LimitChanged extends FlowChanged, FlowBounds {
  readonly ev: 'limit'
  readonly limit: string
  /** Null without a breaker. While it is open nothing starts; while it is half open, only as many run as it has probes. */
  readonly breaker: { readonly position: 'closed' | 'open' | 'half_open'; readonly probes: number } | null
  /** A handler was told to wait: nothing starts before. Null for no such time. */
  readonly notBefore: number | null
}

/** What holds for each group of a queue was set. */
export interface GroupsChanged extends FlowChanged, FlowBounds {
  readonly ev: 'groups'
  readonly queue: string
  readonly ordered: boolean
  readonly onRetry: 'wait' | 'pass'
}

/** What one group has of its own was set, or it was paused or resumed. */
export interface GroupChanged extends FlowChanged {
  readonly ev: 'group'
  readonly queue: string
  readonly group: string
  readonly isPaused: boolean
  readonly notBefore: number | null
  /** Null where it has nothing of its own. */
  readonly override: FlowBounds | null
}

/** Groups that no claim would have looked at, though they had a job that might go: the store found and repaired them. */
interface FlowRepaired extends ProcessRecord {
  readonly ev: 'flow.repaired'
  readonly count: number
}

/** Each job's final state, after all faults had ended and the queues had drained. */
export interface FinalState {
  readonly ev: 'final'
  readonly job: string
  readonly key: string | null
  readonly state: JobState
  readonly attempts: number
  readonly reason: DeadReason | null
}

/** What was left of a day past its retention. */
export interface FinalDay {
  readonly ev: 'final day'
  readonly day: string
  readonly isGone: boolean
  /** Jobs of the day that must outlive it, at first and at the end. */
  readonly leftovers: number
  readonly left: number
}

/** A record of a process. `processRun` counts the starts of a process: its name stays, the number grows. */
interface ProcessRecord {
  readonly process: string
  readonly processRun: number
  readonly mono: number
  /** Its own wall clock in milliseconds since 1970. It may be wrong. It places the event in a story and decides nothing. */
  readonly wall?: number
}

/** Before the call. */
export interface EnqueueInvoked extends ProcessRecord {
  readonly ev: 'enqueue.invoke'
  readonly key: string
  readonly idempotencyKey: string | null
  /** A store time that had passed when the call was made, if the process knew one. */
  readonly after?: number
}

/** After it: `ok` was promised, `fail` was refused, `info` may or may not have happened. */
export interface EnqueueEnded extends ProcessRecord {
  readonly ev: 'enqueue.ok' | 'enqueue.fail' | 'enqueue.info'
  readonly key: string
  readonly job: string | null
  readonly created?: boolean
  /** The store answered that a retry is useless. */
  readonly isRefused?: boolean
}

/** A handler started, ended, or learned that its lease is lost (its signal fired for that). */
export interface HandlerRecord extends ProcessRecord {
  readonly ev: 'started' | 'ended' | 'lost_lease'
  readonly job: string
  readonly fence: number
  readonly attempt: number
}

/** A handler is about to apply an effect outside a transaction. */
export interface EffectRecord extends ProcessRecord {
  readonly ev: 'effect.begin'
  readonly job: string
  readonly fence: number
}

/** An answer of the store was lost: the store had done the work, and its caller can't know. */
interface AnswerLost extends ProcessRecord {
  readonly ev: 'answer.lost'
  /** What the answer was to. */
  readonly to: string
}

export interface FaultRecord extends ProcessRecord {
  readonly ev: 'fault.begin' | 'fault.end'
  readonly kind: string
  readonly target: string
  /** Which fault of the plan this is. */
  readonly index: number
  /** The store's time, if the injector knows it. */
  readonly storeAt?: number
  /** The process that may take no jobs until the fault is over, or `all`. Absent: all go on. */
  readonly disables?: string
}

/** The machine was overloaded or the store was away, so lateness is not checked. */
export interface Busy extends ProcessRecord {
  readonly ev: 'busy'
  readonly storeAt: number
  readonly untilAt: number
}

/** A worker began to take jobs, recorded by its supervisor. `storeAt` is the store's time. */
export interface WorkerUp extends ProcessRecord {
  readonly ev: 'worker.up'
  readonly storeAt: number
  /** As claims name it. */
  readonly worker: string
  /** Its process. */
  readonly of: string
  readonly queues: readonly string[]
  /** The types it has handlers for; null for all types. */
  readonly types: readonly string[] | null
  readonly slots: number
}

/** It takes no more. */
export interface WorkerGone extends ProcessRecord {
  readonly ev: 'worker.down'
  readonly storeAt: number
  readonly worker: string
}

/** The plan of the run; the first line of every history. */
export interface RunBegun {
  readonly ev: 'run'
  readonly seed: string
  readonly commit: string | null
  readonly leaseMs: number
  /** How long after its expiry a lease may remain before it is rescued. */
  readonly rescueMs: number
  /** Whether workers run handlers in children. A child's end is a crash that its worker counts without a rescue. Absent: no. */
  readonly hasChildren?: boolean
  /** The planned faults. Without any, no lease may expire. */
  readonly faults: readonly { readonly index: number; readonly kind: string }[]
  /** Store time at which everything was whole again; null until known. */
  readonly healedAt: number | null
  /** How long after that every job must have finished. */
  readonly drainMs: number
  readonly schedules: readonly {
    readonly name: string
    readonly everyMs: number
    /** Ticks of this span must have fired, each once. */
    readonly from: number
    readonly to: number
    readonly catchUp: CatchUp
  }[]
  /** How flow control is checked. Absent: as in a store where each call is atomic and visible when it is answered, and lateness is not checked. */
  readonly flow?: {
    /** How long after its commit a change is visible to all that begin then, unless a process was answered before. */
    readonly visibleMs: number
    /** The longest that a job may wait beside a free slot and an idle worker; null for not checked. */
    readonly heldMs: number | null
    /** How much longer while a fault is on, of whatever kind, and for the time of recovery after it. */
    readonly allowanceMs: number
  }
  /** How long a job may have been ready while one of lower priority is claimed. Absent or null: inversions are counted only. */
  readonly priorityWindowMs?: number | null
  /** How long a handler may still begin an effect after it was notified that its lease is lost. Absent: 1,000. */
  readonly abortMarginMs?: number
  /** How long a job that could be started may wait. Absent or null: not checked. */
  readonly lateness?: {
    /** The longest that a job may wait while a worker that could take it is idle. */
    readonly boundMs: number
    /** A worker counts as idle once it could take a job for this long without interruption. */
    readonly graceMs: number
    /** How long the affected processes may take to recover after a fault ends. */
    readonly recoverMs: number
    /** How long a handler may continue in a healthy process after its lease was rescued. */
    readonly noticeMs: number
  } | null
  /** The minimum that makes the run count. */
  readonly busy: { readonly jobs: number; readonly expiries: number; readonly unknownAnswers: number }
}

export type StoreEvent =
  | JobStored
  | JobClaimed
  | LeaseExtended
  | JobSettled
  | JobPromoted
  | JobOperated
  | EffectApplied
  | TickFired
  | QueueOperated
  | WritesUndone
  | FlowEvent
  | FinalState

/** What flow control allows, as the store has it. */
export type FlowEvent = LimitChanged | GroupsChanged | GroupChanged

export type ProcessEvent =
  | (EnqueueInvoked | EnqueueEnded | HandlerRecord | EffectRecord | AnswerLost)
  | (FaultRecord | WorkerUp | WorkerGone | Busy | FlowRepaired)

export type HistoryEvent = RunBegun | StoreEvent | ProcessEvent | FinalDay
