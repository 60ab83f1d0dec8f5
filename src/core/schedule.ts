// Which ticks of a schedule are due, and which of them become jobs. Pure: the store applies the answer in one transaction.

import type { CronTimes } from './cron.js'
import type { JobFlow } from './flow/job-flow.js'
import type { NewJob } from './job.js'
import type { JobLimits } from './limits.js'

/** What happens to ticks that no process was there to fire. */
export type CatchUp = 'skip' | 'latest' | 'all'

/** What happens when a tick is due while the job of an earlier one is unfinished. */
export type Overlap = 'allow' | 'skip'

/** A schedule as it is kept. */
export interface Schedule {
  readonly name: string
  readonly cron: string
  readonly zone: string
  readonly queue: string
  readonly type: string
  /** JSON text. */
  readonly payload: string
  readonly version: number
  readonly priority: number
  readonly limits: JobLimits
  readonly tags: readonly string[]
  readonly catchUp: CatchUp
  readonly catchUpMax: number
  readonly overlap: Overlap
  /** Of its jobs. */
  readonly flow?: JobFlow | undefined
}

export interface ScheduleView extends Schedule {
  readonly paused: boolean
  readonly nextAt: Date | null
  readonly lastAt: Date | null
  readonly lastJobId: string | null
}

/** A tick this late was missed, and the catch-up policy decides; earlier it is only slow. */
export const MISSED_AFTER_MS = 60_000
/** A tick this late is reported: longer than it takes until a process notices a schedule that another has made. */
export const LATE_AFTER_MS = 15_000
/** The most ticks one firing turns into jobs. What is left is due immediately and fired next. */
export const TICKS_PER_FIRING_MAX = 100

/** The policy of one schedule. */
export interface CatchUpPolicy {
  readonly catchUp: CatchUp
  /** The most missed ticks `all` makes up for; older ones are dropped. */
  readonly catchUpMax: number
}

/** What one firing does. */
export interface Firing {
  /** Times that become jobs, oldest first. */
  readonly ticks: readonly number[]
  /** When the schedule is due again, or null when its expression has no further time. */
  readonly nextAtMs: number | null
}

/** The ticks of `[nextAtMs, nowMs]` that become jobs under the policy, and the time after them. */
export function ticksDue(
  times: Pick<CronTimes, 'next' | 'between'>,
  policy: CatchUpPolicy,
  nextAtMs: number,
  nowMs: number,
): Firing {
  const due = times.between(nextAtMs, nowMs, lookBack(policy))
  const firstFresh = due.findIndex((tick) => nowMs - tick <= MISSED_AFTER_MS)
  const missed = firstFresh === -1 ? due : due.slice(0, firstFresh)
  const fresh = firstFresh === -1 ? [] : due.slice(firstFresh)
  const ticks = [...caughtUp(policy, missed, fresh.length > 0), ...fresh]
  const now = ticks.slice(0, TICKS_PER_FIRING_MAX)
  const lastMs = ticks.length > now.length ? now[now.length - 1]! : nowMs
  return { ticks: now, nextAtMs: times.next(lastMs) }
}

function lookBack(policy: CatchUpPolicy): number {
  // Ticks are at least a second apart, so this reaches over the whole fresh window and the missed ones that count.
  const fresh = MISSED_AFTER_MS / 1_000 + 2
  return policy.catchUp === 'all' ? fresh + policy.catchUpMax : fresh
}

function caughtUp(policy: CatchUpPolicy, missed: readonly number[], hasFresh: boolean): readonly number[] {
  if (policy.catchUp === 'skip') return []
  if (policy.catchUp === 'all') return missed.slice(-policy.catchUpMax)
  // A fresh tick is already the latest; making up for an older one as well would run the work twice.
  return hasFresh ? [] : missed.slice(-1)
}

/** How much later the job of a tick comes: the same in any process that fires it, and another for each tick and schedule. */
export function jitterOf(name: string, tickMs: number, jitterMs: number): number {
  // FNV-1a, to spread names and times that differ in one place.
  let hash = 0x811c9dc5
  for (const unit of `${name} ${tickMs}`) hash = Math.imul(hash ^ unit.codePointAt(0)!, 0x01000193) >>> 0
  return Math.floor((hash / 2 ** 32) * jitterMs)
}

/** The job of one tick, or of a run by hand: the schedule's settings under an id of its own. */
export function jobOfSchedule(schedule: Schedule, id: string, runAtMs: number | null = null): NewJob {
  const { queue, type, payload, version, priority, limits, tags } = schedule
  const when = runAtMs === null ? null : { runAtMs }
  const plain = { when, idempotencyKey: null, after: [], onParentDead: 'cancel', trace: null } as const
  const flow = schedule.flow === undefined ? {} : { flow: schedule.flow }
  return { id, queue, type, payload, version, priority, limits, tags, ...plain, ...flow }
}
