// Limits and groups as they are shown, and what a claim reports about them.

import type { BreakerPosition } from './breaker.js'
import type { GroupOverride, LimitSettings } from './settings.js'

/** What a claim found in a queue that has flow control. */
export interface FlowState {
  readonly queue: string
  /** Jobs may be left that could be claimed now: claim again. */
  readonly more: boolean
  /** Jobs wait for a time: the first may be claimable after this long. Null when only an event can free one, which wakes the queue. */
  readonly waitMs: number | null
  /** Limits whose breaker this claim found at the end of its cool-down: the jobs it gave are probes. */
  readonly probed?: readonly string[]
}

/** Who set a limit. What a definition asks for never replaces what an operator set. */
export type LimitOrigin = 'operator' | 'definition'

/** A limit as shown. */
export interface LimitView extends Omit<LimitSettings, 'breaker'> {
  readonly name: string
  readonly origin: LimitOrigin
  /** How many jobs count in it now. */
  readonly running: number
  /** Whole tokens of its rate; 0 while more was spent than there was. Null without a rate. */
  readonly tokens: number | null
  /** Nothing starts before this time, because a handler was told to wait. */
  readonly until: Date | null
  /** The concurrency that an adaptive one has come to; null for others. */
  readonly level: number | null
  /** Null when it has none and nobody forces one. */
  readonly breaker: BreakerView | null
}

/** A breaker as shown. */
export interface BreakerView {
  readonly settings: LimitSettings['breaker']
  readonly position: BreakerPosition
  readonly since: Date
  /** Of an open one: when it is probed. */
  readonly probeAt: Date | null
  readonly opens: number
  readonly forced: 'open' | 'closed' | null
  /** Outcomes that count now. */
  readonly ok: number
  readonly failed: number
  /** How it came here, newest first, at most 50. `by` is null where it moved by itself. */
  readonly history: readonly {
    readonly at: Date
    readonly from: BreakerPosition
    readonly to: BreakerPosition
    readonly ok: number
    readonly failed: number
    readonly by: string | null
  }[]
}

/** What became of jobs that count in a limit, since the last report of a worker. */
export interface OutcomeReport {
  readonly limit: string
  readonly ok: number
  /** Attempts that threw or ran out of time. Not those that were dropped, invalid, cancelled, released, or told to wait. */
  readonly failed: number
  /** Attempts that were refused for load: told to wait, out of time, or an error that says so. */
  readonly overloaded: number
  /** The shortest time that one of the refused attempts had run, in milliseconds. Default 0. */
  readonly overloadedAfterMs?: number
}

/** A breaker that a report moved. */
export interface BreakerMove {
  readonly limit: string
  readonly from: BreakerPosition
  readonly to: BreakerPosition
  /** Outcomes that led to it. */
  readonly ok: number
  readonly failed: number
  readonly probeAtMs: number | null
}

/** A handler was told to wait, and with it everything in the scope. */
export type HoldOff = { readonly afterMs: number } & (
  | { readonly scope: 'queue' }
  | { readonly scope: 'group' }
  | { readonly scope: 'limit'; readonly limit: string }
)

/** What flow control knows about one job; for explaining why it waits. */
export interface FlowStanding {
  readonly group: {
    readonly name: string
    readonly concurrency: number | null
    readonly running: number
    readonly ordered: boolean
    readonly paused: boolean
    readonly stoppedBy: string | null
    /** Nothing of it starts before this time. */
    readonly until: Date | null
    /** How long until its rate allows the job's start; 0 when it does. */
    readonly waitMs: number
    /** Of an ordered one: the job that comes first, when it is another. */
    readonly first: { readonly id: string; readonly state: string; readonly runAt: Date | null } | null
  } | null
  /** The queue's limit and the job's own. `waitMs` is how long until the rate allows the job's start. */
  readonly limits: readonly (LimitView & { readonly waitMs: number })[]
}

/** A group as shown. It exists while it has ready or running jobs, is paused, or has settings of its own. */
export interface GroupView {
  readonly group: string
  /** Counted up to GROUP_READY_MAX. */
  readonly ready: number
  readonly running: number
  readonly paused: boolean
  /** The job whose death paused it. */
  readonly stoppedBy: string | null
  readonly until: Date | null
  readonly override: GroupOverride | null
}

/** How many ready jobs of a group are counted. */
export const GROUP_READY_MAX = 10_000

export interface GroupsRequest {
  readonly queue: string
  /** Groups whose names begin with it. Empty for all. */
  readonly prefix: string
  /** Continue behind this name; null starts with the first. */
  readonly after: string | null
  /** From 1 to PAGE_MAX. */
  readonly limit: number
  /** True for those alone that are paused or have settings of their own. Absent for all. */
  readonly own?: boolean
}

export interface GroupPage {
  /** By name. */
  readonly groups: readonly GroupView[]
  /** Where the next page continues, or null at the end. */
  readonly next: string | null
}

/** Jobs of one queue with one set of limits, as shown. */
export interface TrackView {
  readonly queue: string
  /** By name, at least one. */
  readonly limits: readonly string[]
  /** Counted up to TRACK_READY_MAX. */
  readonly ready: number
}

/** How many ready jobs of a track are counted. */
export const TRACK_READY_MAX = 1_000
/** The most tracks that one call shows. */
export const TRACKS_SHOWN_MAX = 1_000

export interface TracksRequest {
  /** Null for all queues. */
  readonly queues: readonly string[] | null
  /** Those that name this limit; null for all. */
  readonly limit: string | null
}

/** A group that the death of a job has stopped. */
export interface StoppedGroup {
  readonly queue: string
  readonly group: string
  readonly stoppedBy: string
}

export interface NeighboursRequest {
  readonly id: string
  readonly queue: string
  readonly group: string
  /** How many of each, from 1 to PAGE_MAX. */
  readonly limit: number
}

/** The jobs around one job of a group. */
export interface Neighbours {
  readonly running: readonly Neighbour[]
  /** Ready jobs that come before it, the nearest first. Empty unless it is ready itself, as are those after it. */
  readonly before: readonly Neighbour[]
  readonly after: readonly Neighbour[]
}

export interface Neighbour {
  readonly id: string
  readonly type: string
}

/** Why a store did not write a job. */
export type FlowRefusal =
  /** Nobody has set a limit of that name. */
  | { readonly code: 'limit_unknown'; readonly limit: string }
  /** The jobs of its queue have TRACKS_MAX other sets of limits. */
  | { readonly code: 'too_many_tracks'; readonly max: number }
  /** The queue, or the group, has as many ready jobs as it may have. */
  | FullRefusal

export type FullRefusal =
  | {
      readonly code: 'queue_full'
      readonly queue: string
      readonly maxDepth: number
      readonly onFull: 'reject' | 'wait'
    }
  | {
      readonly code: 'group_full'
      readonly queue: string
      readonly group: string
      readonly maxDepth: number
      readonly onFull: 'reject' | 'wait'
    }
