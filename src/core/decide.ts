// What becomes of a job after one attempt. Nothing else knows about retries or death. ◄── worker/run.ts · next: worker/settler.ts

import { CRASHES_MAX, type ResolvedLimits } from './limits.js'
import { backoffMs } from './retry.js'
import type { DeadReason } from './states.js'

/** What the rule looks at. */
export interface DecidedJob {
  /** Counted when the job was claimed, so the attempt in question is included. */
  readonly attempt: number
  /** How often the job was lost together with its worker before. */
  readonly crashes: number
  readonly createdAtMs: number
  readonly limits: ResolvedLimits
}

/** How the attempt ended. */
export type Outcome =
  | { readonly kind: 'succeeded' }
  /** The handler threw or ran out of time. `delayMs` is its own choice of the next time; null leaves it to the policy. */
  | { readonly kind: 'failed'; readonly retryable: boolean; readonly delayMs: number | null }
  /** The handler threw DropJob. */
  | { readonly kind: 'dropped' }
  /** The payload does not fit the schema. */
  | { readonly kind: 'invalid' }
  /** The worker gave the job back: a shutdown, or code too old for the payload. */
  | { readonly kind: 'released'; readonly delayMs: number }
  /** The handler asked to be run later, without using up an attempt. */
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  /** The handler waits for a signal, at most this long, or with null for its children, and leaves its slot meanwhile. */
  | { readonly kind: 'parked'; readonly delayMs: number | null }
  | { readonly kind: 'cancelled' }
  /** The handler was told to wait by what it called. `isShared` when everything in a scope waits, and not this job alone. */
  | { readonly kind: 'rate_limited'; readonly delayMs: number; readonly isShared: boolean }
  /** The lease ran out: the worker died, hung or was cut off. `started` is false when it is known that no handler ran. */
  | { readonly kind: 'crashed'; readonly started: boolean }

/** Where the job goes. Delays count from the store's clock at the moment the settlement is applied. */
export type Settlement =
  | { readonly state: 'succeeded'; readonly attempt: number; readonly crashes: number }
  | { readonly state: 'cancelled'; readonly attempt: number; readonly crashes: number }
  | { readonly state: 'ready' | 'blocked'; readonly attempt: number; readonly crashes: number }
  | {
      readonly state: 'retrying' | 'scheduled'
      readonly attempt: number
      readonly crashes: number
      readonly delayMs: number
    }
  | { readonly state: 'dead'; readonly attempt: number; readonly crashes: number; readonly reason: DeadReason }

/** What becomes of `job` after `outcome`. `nowMs` is the store's time, as far as the caller knows it. */
export function decide(job: DecidedJob, outcome: Outcome, nowMs: number, random: () => number): Settlement {
  const { attempt, crashes } = job
  switch (outcome.kind) {
    case 'succeeded':
    case 'cancelled':
      return { state: outcome.kind, attempt, crashes }
    case 'released':
      // A shutdown is not the job's fault, so the attempt it used is given back.
      return giveBack(job, outcome.delayMs)
    case 'snoozed':
    case 'parked':
      if (outcome.delayMs === null) return { state: 'blocked', attempt: attempt - 1, crashes }
      return { state: 'scheduled', attempt: attempt - 1, crashes, delayMs: outcome.delayMs }
    case 'rate_limited':
      return giveBack(job, outcome.isShared ? 0 : outcome.delayMs)
    case 'dropped':
    case 'invalid':
      return { state: 'dead', attempt, crashes, reason: outcome.kind }
    case 'failed':
      if (!outcome.retryable) return { state: 'dead', attempt, crashes, reason: 'dropped' }
      return retryOrDie(job, outcome.delayMs, nowMs, random)
    case 'crashed': {
      if (!outcome.started) return giveBack(job, 0)
      const crashed = { ...job, crashes: crashes + 1 }
      if (crashed.crashes >= CRASHES_MAX) return { state: 'dead', attempt, crashes: crashed.crashes, reason: 'crashed' }
      const settlement = retryOrDie(crashed, null, nowMs, random)
      // A first crash is usually the worker's fault: retry immediately. From then on the job is a suspect, and waits as after any
      // failure.
      if (settlement.state === 'retrying' && crashed.crashes === 1) return { state: 'ready', attempt, crashes: 1 }
      return settlement
    }
  }
}

/** Whether a job that was just claimed may run at all, or is dead before its handler sees it. */
export function decideBeforeRun(job: DecidedJob, nowMs: number): Settlement | null {
  const { attempt, crashes } = job
  if (isTooOld(job, nowMs) || isTooLate(job, nowMs))
    return { state: 'dead', attempt: attempt - 1, crashes, reason: 'expired' }
  // Reached when the limit was lowered, or when a crash was settled by a process that did not know the definition.
  if (attempt > job.limits.maxAttempts) return { state: 'dead', attempt: attempt - 1, crashes, reason: 'attempts' }
  return null
}

function giveBack(job: DecidedJob, delayMs: number): Settlement {
  const attempt = job.attempt - 1
  if (delayMs > 0) return { state: 'scheduled', attempt, crashes: job.crashes, delayMs }
  return { state: 'ready', attempt, crashes: job.crashes }
}

function retryOrDie(job: DecidedJob, delayMs: number | null, nowMs: number, random: () => number): Settlement {
  const { attempt, crashes, limits } = job
  if (attempt >= limits.maxAttempts) return { state: 'dead', attempt, crashes, reason: 'attempts' }
  if (isTooOld(job, nowMs)) return { state: 'dead', attempt, crashes, reason: 'expired' }
  return { state: 'retrying', attempt, crashes, delayMs: delayMs ?? backoffMs(limits.retry, attempt, random) }
}

/** Its first attempt was to begin by a time that is over. */
function isTooLate({ limits, attempt, crashes }: DecidedJob, nowMs: number): boolean {
  return limits.startByMs !== undefined && attempt === 1 && crashes === 0 && nowMs > limits.startByMs
}

function isTooOld(job: DecidedJob, nowMs: number): boolean {
  const { maxAgeMs } = job.limits
  return maxAgeMs !== null && nowMs - job.createdAtMs > maxAgeMs
}
