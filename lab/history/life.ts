// The known state of one job while its history is read in the store's order, and the report that collects violations.

import type { JobState } from '../../src/core/states.js'
import type { EffectApplied, FinalState, JobStored, RunBegun, WritesUndone } from './events.js'
import { type Counts, type Invariant, VIOLATIONS_MAX, type Violation } from './verdict.js'

/** The tolerance for comparing store times: some stores keep whole milliseconds, others fractions. */
export const ROOM_MS = 1

/** A lease that is held. */
interface HeldLease {
  readonly fence: number
  readonly attempt: number
  readonly claimedAt: number
  leasedUntil: number
}

export interface Life {
  readonly job: string
  /** Null when the store has no record of the job's creation. */
  readonly stored: JobStored | null
  state: JobState
  lease: HeldLease | null
  /** Every fence that was given, in order; a fence that comes later is larger. */
  readonly fences: number[]
  attempts: number
  crashes: number
  /** The time before which it must not be claimed; null once that has passed or when there is none. */
  dueAt: number | null
  /** Ready since, while it is. */
  readySince: number | null
  cancelAsked: boolean
  /** How the last lease ended, for counting repeated claims. */
  lastEnd: 'rescue' | 'failure' | 'release' | 'requeue' | null
  /** When the lease expired, for a job that was rescued and is ready since then; null otherwise. */
  ranOutAt: number | null
  leasesWithoutSuccess: number
  success: { readonly fence: number; readonly tx: string | undefined } | null
  finishedAt: number | null
  readonly effects: EffectApplied[]
  final: FinalState | null
}

export function newLife(job: string, stored: JobStored | null): Life {
  const state = stored?.state ?? 'ready'
  return {
    job,
    stored,
    state,
    lease: null,
    fences: [],
    attempts: 0,
    crashes: 0,
    dueAt: stored?.runAt ?? null,
    readySince: state === 'ready' && stored !== null ? stored.at : null,
    cancelAsked: false,
    lastEnd: null,
    ranOutAt: null,
    leasesWithoutSuccess: 0,
    success: null,
    finishedAt: null,
    effects: [],
    final: null,
  }
}

/** What every part of the check shares. */
export interface Reading {
  readonly run: RunBegun | null
  readonly lives: Map<string, Life>
  readonly counts: Counts
  readonly redeliveries: { afterRescue: number; afterFailure: number; afterRelease: number; afterRequeue: number }
  readonly rescues: number[]
  readonly recoveries: number[]
  /** Spans whose writes another server did not have when it took over. */
  readonly undone: WritesUndone[]
  readonly violations: Violation[]
  violationCount: number
}

export function newReading(run: RunBegun | null): Reading {
  const dead = { attempts: 0, dropped: 0, expired: 0, crashed: 0, invalid: 0 }
  const counts: Counts = {
    events: 0,
    asked: 0,
    accepted: 0,
    refused: 0,
    unknown: 0,
    answersLost: 0,
    jobs: 0,
    claims: 0,
    extensions: 0,
    succeeded: 0,
    cancelled: 0,
    dead,
    unfinished: 0,
    retries: 0,
    releases: 0,
    rescues: 0,
    lostLeases: 0,
    effectsInTransaction: 0,
    effectsOutside: 0,
    effectsRepeated: 0,
    ticks: 0,
    takeovers: 0,
    claimsUndone: 0,
    acceptedUndone: 0,
    acceptedUndoneBy: {},
    longestIdleWaitMs: 0,
    faults: {},
    flow: {
      ...{ jobs: 0, starts: 0, groups: 0, changes: 0, ordered: 0, filled: 0, probes: 0, repaired: 0 },
      longestHeldMs: 0,
    },
  }
  const redeliveries = { afterRescue: 0, afterFailure: 0, afterRelease: 0, afterRequeue: 0 }
  return {
    ...{ run, lives: new Map(), counts, redeliveries, rescues: [], recoveries: [] },
    ...{ undone: [], violations: [], violationCount: 0 },
  }
}

/** Whether a claim with this fence may have been undone by a takeover: on Redis a fence is the time of its claim. */
export function isClaimUndone({ undone }: Reading, fence: number): boolean {
  return undone.some(({ from, to }) => from <= fence && fence <= to)
}

/** The takeover that may have undone an enqueue which was called and answered at these times. */
export function enqueueUndone({ undone }: Reading, calledAt: number, answeredAt: number): WritesUndone | undefined {
  return undone.find(({ what, from, to }) => what === 'all' && from <= answeredAt && calledAt <= to)
}

/** Reports a violation. */
export function report(reading: Reading, invariant: Invariant, job: string | null, message: string): void {
  reading.violationCount++
  if (reading.violations.length < VIOLATIONS_MAX) reading.violations.push({ invariant, job, message })
}
