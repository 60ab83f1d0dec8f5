// Flow control in numbers, for metrics: how much each limit lets run, and how much each queue holds back.

import type { BreakerPosition } from './breaker.js'

/** The most limits, and the most queues, that one look counts: the first by name. */
export const FLOW_COUNTED_MAX = 1_000
/** How far jobs, groups and events of one queue are counted. */
export const FLOW_COUNT_MAX = 10_000

/** A limit in numbers. */
export interface LimitCount {
  readonly name: string
  /** How many jobs count in it now. */
  readonly running: number
  /** How many may run concurrently; null for any number. */
  readonly capacity: number | null
  /** Whole tokens of its rate; null without a rate. */
  readonly tokens: number | null
  /** Whether nothing starts for a time, because a handler was told to wait. */
  readonly isHeldOff: boolean
  /** Of its breaker; null when it has none and nobody forces one. */
  readonly position: BreakerPosition | null
  readonly forced: 'open' | 'closed' | null
}

/** A queue under flow control in numbers, each counted up to FLOW_COUNT_MAX. */
export interface QueueFlowCount {
  readonly queue: string
  /** Ready jobs with a group or limits. */
  readonly held: number
  /** Groups those belong to. */
  readonly groups: number
  /** Groups that the death of a job has stopped. */
  readonly stopped: number
  /** Events that no claim has looked at yet; 0 for a store that has none. */
  readonly arrivals: number
  /** Groups that were found forgotten since the queue has flow control. It must stay 0. */
  readonly repaired: number
}

export interface FlowCounts {
  /** By name, at most FLOW_COUNTED_MAX. */
  readonly limits: readonly LimitCount[]
  /** By name, at most FLOW_COUNTED_MAX. Null when counting took too long. */
  readonly queues: readonly QueueFlowCount[] | null
}

/** Why a limit gives no jobs. */
export type ClosedBecause = 'breaker' | 'told to wait' | 'full' | 'rate'

/** Why a limit would let nothing start now; null when it would. */
export function closedBecause(limit: LimitCount): ClosedBecause | null {
  const { running, capacity, tokens, isHeldOff, position, forced } = limit
  if (forced === 'open' || (forced === null && position === 'open')) return 'breaker'
  if (isHeldOff) return 'told to wait'
  if (capacity !== null && running >= capacity) return 'full'
  return tokens === 0 ? 'rate' : null
}
