// What can be done to a store, as plain values. What an operation needs of an earlier one (a job, a lease) is named by how
// far back the run saw it, so that a sequence still means something after shrinking took other operations out of it.

import type { ReplaceRule } from '../../src/core/flow/carried.js'
import type { ClaimBatch } from '../../src/core/flow/contract.js'
import type { JobFlow } from '../../src/core/flow/job-flow.js'
import type { HoldOff } from '../../src/core/flow/views.js'
import type { IdempotencyKey, NewJob } from '../../src/core/job.js'
import type { JobFilter } from '../../src/core/job-filter.js'
import type { StoredError } from '../../src/core/json.js'
import type { JobLimits } from '../../src/core/limits.js'
import type { BulkAction } from '../../src/core/operating.js'
import type { CatchUp, Overlap } from '../../src/core/schedule.js'
import type { DeadReason } from '../../src/core/states.js'
import type { QueueSettings, WorkerBeat } from '../../src/core/views.js'
import type { FlowOperation } from './flow-operations.js'

/** A job N steps back from the one touched last, of all that were written or of those that died; or an unknown id. */
export type JobReference = { readonly of: 'any' | 'dead'; readonly back: number } | 'unknown'

/** A lease the run was given: one that holds as far as the run knows, or any. `fenceShift` makes it a wrong one. */
export interface LeaseReference {
  readonly of: 'held' | 'any'
  readonly back: number
  readonly fenceShift: number
}

/** A job to enqueue: a new one, or one that was sent before. Times are relative to the clock. */
export type JobSketch =
  | { readonly again: number }
  | (Pick<
      NewJob,
      'payload' | 'version' | 'priority' | 'limits' | 'onParentDead' | 'tags' | 'trace' | 'flow' | 'lifo'
    > & {
      readonly queue: string
      readonly type: string
      readonly when: { readonly runInMs: number } | { readonly delayMs: number } | null
      readonly key: IdempotencyKey | null
      readonly after: readonly JobReference[]
      readonly replace?: ReplaceRule | null
    })

export interface SettlementSketch {
  readonly lease: LeaseReference
  readonly state: 'succeeded' | 'cancelled' | 'ready' | 'retrying' | 'scheduled' | 'dead'
  readonly delayMs: number
  readonly reason: DeadReason
  readonly givesBack: boolean
  readonly crashes: number
  readonly result: string | null
  readonly error: StoredError | null
  readonly ranMs: number | null
  readonly holdOff?: HoldOff | undefined
  readonly spent?: number | undefined
}

export interface ScheduleSketch {
  readonly name: string
  readonly cron: string
  readonly zone: string
  readonly queue: string
  readonly catchUp: CatchUp
  readonly overlap: Overlap
  readonly limits: JobLimits
  readonly tags: readonly string[]
  readonly flow?: JobFlow | undefined
}

export type Operation =
  | FlowOperation
  /** Lets so much time pass, or all of it until the day ends: what is kept by the day turns on that moment. */
  | { readonly kind: 'advance'; readonly ms: number | 'midnight' }
  | { readonly kind: 'enqueue'; readonly jobs: readonly JobSketch[] }
  | {
      readonly kind: 'claim'
      readonly queues: readonly { readonly queue: string; readonly limit: number }[]
      readonly types: readonly string[] | null
      readonly batches: readonly ClaimBatch[]
      readonly worker: string
      readonly leaseMs: number
    }
  | { readonly kind: 'begin' | 'watch'; readonly leases: readonly LeaseReference[] }
  | { readonly kind: 'extend'; readonly leases: readonly LeaseReference[]; readonly leaseMs: number }
  | {
      readonly kind: 'note'
      readonly notes: readonly {
        readonly lease: LeaseReference
        readonly progress: string | null
        readonly logs: readonly string[]
      }[]
    }
  | { readonly kind: 'settle'; readonly jobs: readonly SettlementSketch[]; readonly onlyExpired: boolean }
  | { readonly kind: 'promote' | 'expired' | 'due'; readonly limit: number }
  | {
      readonly kind: 'fire'
      readonly name: string
      /** Off the true next time by so much. */
      readonly expectedOffMs: number
      readonly tickOffsMs: readonly number[]
      readonly nextInMs: number | null
    }
  | { readonly kind: 'prune'; readonly retentionMs: number }
  | {
      readonly kind: 'cancel' | 'requeue' | 'discard' | 'delete'
      readonly jobs: readonly JobReference[]
      readonly ofDead: boolean
    }
  | {
      readonly kind: 'update'
      readonly job: JobReference
      readonly priority?: number
      readonly runInMs?: number | null
      readonly payload?: string
    }
  | { readonly kind: 'pause' | 'resume'; readonly queue: string }
  | { readonly kind: 'setQueue'; readonly queue: string; readonly settings: QueueSettings }
  | { readonly kind: 'setSchedule'; readonly schedule: ScheduleSketch; readonly nextInMs: number }
  | { readonly kind: 'removeSchedule' | 'pauseSchedule'; readonly name: string }
  | { readonly kind: 'resumeSchedule'; readonly name: string; readonly nextInMs: number }
  | { readonly kind: 'queues' | 'schedules' | 'workers' | 'now' }
  | { readonly kind: 'get'; readonly job: JobReference }
  | {
      readonly kind: 'list'
      readonly filter: JobFilter
      readonly limit: number
      readonly before: JobReference | null
    }
  | { readonly kind: 'count'; readonly filter: JobFilter; readonly max: number }
  | { readonly kind: 'stats'; readonly queue: string | null }
  | { readonly kind: 'overview' | 'sample' | 'stepBulk' }
  | { readonly kind: 'audit' | 'bulks' }
  | { readonly kind: 'deadGroups'; readonly queue: string | null; readonly limit: number }
  | { readonly kind: 'standing'; readonly job: JobReference }
  | { readonly kind: 'tally'; readonly tallies: readonly { readonly queue: string; readonly count: number }[] }
  | { readonly kind: 'series'; readonly queue: string | null; readonly backMs: number; readonly stepMs: number }
  | {
      readonly kind: 'startBulk'
      readonly action: BulkAction
      readonly filter: JobFilter
      readonly perSecond: number | null
      readonly limit: number
    }
  /** Of the bulk actions that were started, N back. */
  | { readonly kind: 'cancelBulk'; readonly back: number }
  | { readonly kind: 'endings'; readonly jobs: readonly JobReference[] }
  | { readonly kind: 'beat'; readonly worker: WorkerBeat }
  | { readonly kind: 'leave'; readonly worker: string }

export type Kind = Operation['kind']
