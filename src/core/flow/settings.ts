// What operators set: limits by name, queues, groups. Kept in the store, the same for all processes, changed at run time.

import type { AdaptiveSettings } from './adaptive.js'
import type { BreakerSettings } from './breaker.js'

/** The most jobs a limit may let run concurrently: a claim counts up to that many. */
export const CONCURRENCY_MAX = 100_000
/** The most starts, or the most cost, of a rate and of its burst. */
export const RATE_MAX = 1_000_000_000
/** The largest depth of a queue or a group. */
export const DEPTH_MAX = 100_000_000
/** The largest weight of a group. */
export const WEIGHT_MAX = 1_000
/** The most limits that have a name, without those of queues. */
export const LIMITS_MAX = 10_000

/** A token bucket: over any stretch of T ms at most `burst + T × limit / perMs` starts, or as much cost. */
export interface Rate {
  readonly limit: number
  readonly perMs: number
  readonly burst: number
  /** What a start takes: one token, or the job's cost. */
  readonly counts: 'starts' | 'cost'
}

/** How many jobs run concurrently and start in a time; null for no bound. */
interface Bounds {
  readonly concurrency: number | null
  readonly rate: Rate | null
}

/** What a limit bounds. */
export interface LimitSettings extends Bounds {
  /** A concurrency that moves between two bounds by itself; `concurrency` is null then. */
  readonly adaptive: AdaptiveSettings | null
  readonly breaker: BreakerSettings | null
}

/** A limit that bounds nothing. */
export const NO_LIMIT: LimitSettings = { concurrency: null, rate: null, adaptive: null, breaker: null }

/** What holds for each group of a queue that has no settings of its own. */
export interface GroupSettings extends Bounds {
  /** One job at a time, in the order of their enqueues; priority does not count. */
  readonly ordered: boolean
  /** Of ordered groups: whether a job that has started and waits for its next attempt keeps the others waiting. */
  readonly onRetry: 'wait' | 'pass'
  /** Of ordered groups: whether the death of a job pauses the group. */
  readonly onDead: 'continue' | 'stop'
  /** How many ready jobs a group may have before enqueues to it are refused; null for any number. */
  readonly maxDepth: number | null
}

/** Groups without bounds: they take turns, and that is all. */
export const NO_GROUP_SETTINGS: GroupSettings = {
  concurrency: null,
  rate: null,
  ordered: false,
  onRetry: 'wait',
  onDead: 'continue',
  maxDepth: null,
}

/** Flow control of a queue. */
export interface QueueFlow extends Bounds {
  readonly groups: GroupSettings
  /** How many ready jobs it may have before enqueues are refused; null for any number. */
  readonly maxDepth: number | null
  /** What clients do with an enqueue that is refused because the queue or the group is full: raise, or try again for a while. */
  readonly onFull: 'reject' | 'wait'
  /** A ready job gains one priority each time it has waited this long; null for never. */
  readonly agingMs: number | null
}

/** Flow control that bounds nothing. */
export const NO_QUEUE_FLOW: QueueFlow = {
  concurrency: null,
  rate: null,
  groups: NO_GROUP_SETTINGS,
  maxDepth: null,
  onFull: 'reject',
  agingMs: null,
}

/** What one group has of its own. Null leaves it to the queue's settings. */
export interface GroupOverride extends Bounds {
  /** How many turns it gets for each of the others. 1 unless it says otherwise. */
  readonly weight: number
}
