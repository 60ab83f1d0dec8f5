// What happens, in one vocabulary for logs, metrics, traces and tests.

import type { Isolate } from './definition.js'
import type { ClosedBecause } from './flow/counts.js'
import type { Horizon } from './operating.js'
import type { JobState } from './states.js'

/** Something that happened in this process. Payloads are never part of it. */
export type HoldfastEvent =
  | { readonly name: 'job.enqueued'; readonly count: number; readonly tookMs: number }
  | {
      /** A call of enqueue or enqueueMany was answered; with `tx` it holds once the caller's transaction commits. */
      readonly name: 'enqueue.answered'
      /** From the call to its answer, which is longer than the write when calls are gathered. */
      readonly tookMs: number
      /** The jobs it asked for. `created` is false of one whose idempotency key was taken; the id is the holder's then. */
      readonly jobs: readonly {
        readonly id: string
        readonly type: string
        readonly queue: string
        readonly created: boolean
      }[]
    }
  | { readonly name: 'job.claimed'; readonly count: number; readonly asked: number; readonly tookMs: number }
  | {
      readonly name: 'job.started'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly attempt: number
      /** From its enqueue to this start, by the store's clock; null of later attempts. */
      readonly waitMs: number | null
    }
  | {
      readonly name: 'job.ended'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly attempt: number
      /** What the attempt came to. */
      readonly outcome: string
      readonly ranMs: number | null
      readonly error: string | null
      /** What waits with a job that was told to wait: the job alone, or all of its group, its queue or a limit. */
      readonly scope?: 'job' | 'group' | 'queue' | 'limit'
      readonly limit?: string
    }
  | {
      readonly name: 'job.settled'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly state: JobState
      readonly reason: string | null
      /** For a retry, how long until it runs again. */
      readonly delayMs: number | null
      /** What its last attempt failed with, when that was in this process. */
      readonly error?: Error | undefined
    }
  /** `onRetry` or `onDead` of a definition threw. */
  | {
      readonly name: 'hook.failed'
      readonly hook: 'onRetry' | 'onDead'
      readonly jobId: string
      readonly jobType: string
      readonly error: Error
    }
  | { readonly name: 'job.stuck'; readonly id: string; readonly type: string; readonly queue: string }
  | {
      readonly name: 'lease.lost'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly fence: number
    }
  | { readonly name: 'lease.extended'; readonly count: number }
  | {
      readonly name: 'job.rescued'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly worker: string
      readonly state: JobState
      /** Why it is dead, when it is. */
      readonly reason: string | null
      readonly crashes: number
    }
  | { readonly name: 'rescue.held'; readonly why: string; readonly forMs: number }
  | { readonly name: 'job.promoted'; readonly count: number }
  | { readonly name: 'schedule.fired'; readonly schedule: string; readonly tick: Date; readonly jobId: string | null }
  /** Ticks of a queue's schedules are fired too late, or were until now: `lateMs` is by how much this one is, `count` how many firings
   *  were since it was last said. At most once a minute for each queue. */
  | {
      readonly name: 'schedule.late'
      readonly schedule: string
      readonly queue: string
      readonly lateMs: number
      readonly count: number
    }
  | { readonly name: 'schedule.broken'; readonly schedule: string; readonly error: Error }
  | {
      readonly name: 'bulk.stepped'
      readonly id: string
      readonly action: string
      readonly moved: number
      readonly refused: number
      readonly state: string
    }
  /** Somebody holds an old snapshot of the store: dead rows pile up. Said again each minute while it lasts. */
  | { readonly name: 'horizon.held'; readonly horizon: Horizon; readonly text: string }
  | { readonly name: 'horizon.freed' }
  /** The server keeps less than was promised, such as with fsync off. Said again every ten minutes while it lasts. */
  | { readonly name: 'durability.reduced'; readonly text: string }
  | { readonly name: 'prune.done'; readonly days: readonly string[]; readonly rows: number }
  /** A day past its retention cannot be dropped, or one to come not be made; it is passed over. Said again each hour while it lasts. */
  | { readonly name: 'prune.postponed'; readonly day: string; readonly why: string }
  /** The store is on another server now, which may have lost the last commits of the one before. */
  | { readonly name: 'timeline.changed'; readonly system: string; readonly from: number; readonly to: number }
  /** A replica of Redis was promoted: writes that it did not have are lost, unless they waited for it. `keys` is what the keys of the
   *  shard begin with; `from` and `to` are replication ids. */
  | { readonly name: 'store.failed_over'; readonly keys: string; readonly from: string; readonly to: string }
  /** What this process remembered was said again to the new server: how much of it had been missing there. `inside` counts jobs that
   *  were enqueued in callers' transactions and are not there: those were rolled back, or lost with everything else they wrote. */
  | {
      readonly name: 'failover.said'
      readonly jobs: number
      readonly claims: number
      readonly settlements: number
      /** Cancels, requeues, discards, changes, replaced payloads and pauses. */
      readonly operations: number
      readonly inside: number
      readonly tookMs: number
    }
  /** What may be missing after a failover although every process that lives has said again what it remembered: what was accepted in this
   *  window by processes that have not spoken since. Told by one process, once for each failover. */
  | {
      readonly name: 'failover.missing'
      /** The last commit that the new server took over; null when nobody knows. */
      readonly from: Date | null
      readonly until: Date
      /** How many processes are silent, and who: host and process id. */
      readonly clients: number
      readonly processes: string
      /** The most jobs of theirs that may be missing, by their busiest second. */
      readonly jobsMax: number
    }
  /** Rows of the outbox were sent: how many of them had been sent before, to a server that has since lost its last writes. */
  | { readonly name: 'outbox.sent'; readonly count: number; readonly repeated: number }
  /** A job of the outbox was not created, because `holder` has its idempotency key. */
  | {
      readonly name: 'outbox.deduplicated'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly holder: string
      /** Whether the holder took its payload. */
      readonly replaced: boolean
    }
  /** A job of the outbox will never be created: it comes after one that does not exist, or the store cannot have it. */
  | {
      readonly name: 'outbox.refused'
      readonly id: string
      readonly type: string
      readonly queue: string
      readonly why: string
    }
  /** A job was completed in a transaction, and had ended otherwise before that could be sent. */
  | { readonly name: 'outbox.completion_lost'; readonly id: string; readonly queue: string; readonly state: JobState }
  /** The server of the store has restarted or failed over: what was sent to it lately is sent again. */
  | { readonly name: 'outbox.repeating'; readonly part: number; readonly epoch: string }
  | { readonly name: 'store.failed'; readonly during: string; readonly error: Error }
  | { readonly name: 'store.recovered'; readonly during: string; readonly afterMs: number }
  | { readonly name: 'loop.blocked'; readonly forMs: number }
  /** The breaker of a limit opened, because too many failed, or because its probes did. Jobs that name it wait. */
  | { readonly name: 'breaker.opened'; readonly limit: string; readonly ok: number; readonly failed: number }
  /** The cool-down is over: this process has claimed jobs that try out whether it works again. */
  | { readonly name: 'breaker.probed'; readonly limit: string }
  | { readonly name: 'breaker.closed'; readonly limit: string; readonly ok: number; readonly failed: number }
  /** A limit gives no jobs, and why. Looked at every ten seconds: what passes between two looks is not told. */
  | { readonly name: 'limit.closed'; readonly limit: string; readonly why: ClosedBecause }
  | { readonly name: 'limit.opened'; readonly limit: string }
  /** A claim of this process left jobs that wait for a time: a rate, or somebody who was told to wait. At most once in ten seconds for
   *  each queue. */
  | { readonly name: 'job.held'; readonly queue: string; readonly waitMs: number }
  /** Groups had jobs that might go and that no claim would have looked at. They go on now. It must not happen while every process is of
   *  one version. */
  | { readonly name: 'flow.repaired'; readonly count: number }
  /** Enqueues were refused, or wait, because their queue or group is full: `count` of them since it was last told, at most every ten
   *  seconds for each queue. `group` is that of the last one; null when the queue itself is full. */
  | {
      readonly name: 'queue.full'
      readonly queue: string
      readonly group: string | null
      readonly maxDepth: number
      readonly count: number
    }
  /** A child that runs handlers is ready. `pid` is null of a thread. */
  | { readonly name: 'child.started'; readonly isolate: Isolate; readonly pid: number | null; readonly tookMs: number }
  | {
      readonly name: 'child.ended'
      readonly isolate: Isolate
      readonly pid: number | null
      /** What made it end: it exited or was killed by itself, could not load its module, was ended because of a stuck handler or of its
       *  memory, was replaced, or stopped with its worker. */
      readonly why: 'exit' | 'load' | 'stuck' | 'memory' | 'recycled' | 'stopped'
      readonly code: number | null
      readonly signal: string | null
      /** How many jobs it had in hand: they run again. */
      readonly jobs: number
      readonly error: string | null
    }
  | { readonly name: 'worker.started'; readonly worker: string }
  | { readonly name: 'worker.draining'; readonly worker: string; readonly running: number }
  | { readonly name: 'worker.stopped'; readonly worker: string; readonly released: number }

/** Receives events. Must not throw; what it throws is ignored. */
export type Emit = (event: HoldfastEvent) => void
