// Turns what the library gives into what the HTTP API answers. Dates become ISO strings when they are written as JSON.

import type { JobFlowStatus } from '../client/flow-calls.js'
import type { ScheduleStatus } from '../client/schedules.js'
import { parseCron } from '../core/cron.js'
import { formatFilter } from '../core/filter-format.js'
import { queueLimitName } from '../core/flow/job-flow.js'
import type { BreakerView, LimitView } from '../core/flow/views.js'
import { type BulkView, type DeadGroup, isLiveAfter, type Overview } from '../core/operating.js'
import type { OutboxHealth } from '../core/outbox.js'
import type { JobView, WorkerView } from '../core/views.js'
import { MASK, type MaskPlace, mask, secretPlaces } from './redact.js'
import type * as flow from './schemas/flow.js'
import type * as jobs from './schemas/jobs.js'
import type * as operating from './schemas/operating.js'
import type * as queues from './schemas/queues.js'
import { can, maySee, type Who } from './who.js'

const NEXT_RUNS = 5

/** An answer before it is written as JSON: its times may still be dates. */
type Shown<T> = unknown extends T
  ? T
  : string extends T
    ? T | Date
    : T extends readonly (infer Entry)[]
      ? readonly Shown<Entry>[]
      : T extends object
        ? { readonly [Key in keyof T]: Shown<T[Key]> }
        : T

/** The queues that the caller may see. */
export function showOverview({ queues, total, isExact, nowMs }: Overview, who: Who): Shown<queues.Overview> {
  const seen = queues.filter(({ name }) => maySee(who, name))
  return { queues: seen, total: who.queues === null ? total : seen.length, exact: isExact, now: new Date(nowMs) }
}

export function showOutbox(outbox: OutboxHealth | null): operating.Outbox | null {
  if (outbox === null) return null
  const { isReachable, isExact, ...figures } = outbox
  return { ...figures, reachable: isReachable, exact: isExact }
}

/** A job with its secrets masked. Without the scope `read:payload`, the whole payload and result are masked. */
export function showJob(job: JobView, who: Who, extra: MaskPlace | null): Shown<jobs.Job> {
  const isSecret = secretPlaces(job, extra)
  const progress = mask('progress', job.progress, isSecret)
  const shown = { ...job, progress: progress.value }
  if (!can(who, 'read:payload')) {
    const redacted = ['payload', ...(job.result === null ? [] : ['result'])]
    const result = job.result === null ? null : MASK
    return { ...shown, payload: MASK, result, redacted: [...redacted, ...progress.paths] }
  }
  const payload = mask('payload', job.payload, isSecret)
  const result = mask('result', job.result, isSecret)
  return {
    ...shown,
    payload: payload.value,
    result: result.value,
    redacted: [...payload.paths, ...result.paths, ...progress.paths],
  }
}

export function showBulk(bulk: BulkView): Shown<operating.Bulk> {
  const { filter, expected, ...others } = bulk
  return { ...others, filter: formatFilter(filter), expected: expected?.count ?? null }
}

export function showGroup({ isExact, ...group }: DeadGroup): Shown<queues.DeadGroup> {
  return { ...group, exact: isExact }
}

/** A schedule with its next times. They are computed here, without a query for each schedule. */
export function showSchedule(
  schedule: ScheduleStatus,
  { who, nowMs, redact }: { readonly who: Who; readonly nowMs: number; readonly redact: MaskPlace | null },
): Shown<operating.Schedule> {
  const masked = can(who, 'read:payload')
    ? mask('payload', schedule.payload, secretPlaces(schedule, redact))
    : { value: MASK, paths: ['payload'] }
  return { ...schedule, payload: masked.value, redacted: masked.paths, next: nextTimes(schedule, nowMs) }
}

function nextTimes({ cron, zone }: ScheduleStatus, nowMs: number): readonly Date[] {
  try {
    return parseCron(cron, zone).following(nowMs, NEXT_RUNS)
  } catch {
    // An older version wrote an expression that this one cannot read. The warnings report it.
    return []
  }
}

export function showWorker({ restMs = 0, ...worker }: WorkerView, who: Who, nowMs: number): Shown<operating.Worker> {
  const heartbeatAgeMs = Math.max(0, Math.round(nowMs - worker.seenAt.getTime()))
  const jobs = worker.jobs
    .filter(({ queue }) => maySee(who, queue))
    .map(({ startedAtMs, ...job }) => ({ ...job, startedAt: new Date(startedAtMs) }))
  const queues = worker.queues.filter((queue) => maySee(who, queue))
  // A type does not tell its queue, so they are hidden from callers limited to some queues.
  const types = who.queues === null ? worker.types : null
  return { ...worker, queues, types, jobs, heartbeatAgeMs, live: isLiveAfter(heartbeatAgeMs, { restMs }) }
}

/** A limit. Callers limited to some queues don't see its counts, nor who moved its breaker: jobs of other queues may share it. */
export function showLimit(limit: LimitView, who: Who): Shown<flow.Limit> {
  const { breaker } = limit
  const shown = breaker === null ? null : showBreaker(breaker)
  const isOwn = who.queues === null || who.queues.some((queue) => queueLimitName(queue) === limit.name)
  if (isOwn) return { ...limit, breaker: shown }
  return { ...limit, running: null, tokens: null, breaker: shown === null ? null : withoutCounts(shown) }
}

/** A breaker nobody has reported to has been closed since ever. */
function showBreaker(breaker: BreakerView): Shown<flow.Breaker> {
  return { ...breaker, since: breaker.since.getTime() === 0 ? null : breaker.since }
}

function withoutCounts(breaker: Shown<flow.Breaker>): Shown<flow.Breaker> {
  const hidden = { ok: null, failed: null }
  return { ...breaker, ...hidden, history: breaker.history.map((change) => ({ ...change, ...hidden, by: null })) }
}

export function showJobFlow({ flow, group, limits }: JobFlowStatus, who: Who): Shown<flow.JobFlowView> {
  return { flow, group, limits: limits.map(({ waitMs, ...limit }) => ({ ...showLimit(limit, who), waitMs })) }
}
