// What the library gives, in the words of the HTTP contract. Dates become ISO strings when they are written.

import type { ScheduleStatus } from '../client/schedules.js'
import { parseCron } from '../core/cron.js'
import { formatFilter } from '../core/filter-format.js'
import type { JobView, WorkerView } from '../core/job.js'
import { type BulkView, type DeadGroup, type Overview, WORKER_LIVE_MS } from '../core/operating.js'
import { MASK, type MaskPlace, mask, secretPlaces } from './redact.js'
import { can, maySee, type Who } from './who.js'

const NEXT_RUNS = 5

/** The queues they may see. */
export function showOverview({ queues, total, isExact, nowMs }: Overview, who: Who): Readonly<Record<string, unknown>> {
  const seen = queues.filter(({ name }) => maySee(who, name))
  return { queues: seen, total: who.queues === null ? total : seen.length, exact: isExact, now: new Date(nowMs) }
}

/** A job with its secrets masked: all of its payload and result for those who may not see payloads. */
export function showJob(job: JobView, who: Who, extra: MaskPlace | null): Readonly<Record<string, unknown>> {
  const isSecret = secretPlaces(job, extra)
  const progress = mask('progress', job.progress, isSecret)
  if (!can(who, 'read:payload')) {
    const redacted = ['payload', ...(job.result === null ? [] : ['result'])]
    const result = job.result === null ? null : MASK
    return { ...job, payload: MASK, result, progress: progress.value, redacted: [...redacted, ...progress.paths] }
  }
  const payload = mask('payload', job.payload, isSecret)
  const result = mask('result', job.result, isSecret)
  return {
    ...job,
    payload: payload.value,
    result: result.value,
    progress: progress.value,
    redacted: [...payload.paths, ...result.paths, ...progress.paths],
  }
}

export function showBulk(bulk: BulkView): Readonly<Record<string, unknown>> {
  const { filter, expected, ...others } = bulk
  return { ...others, filter: formatFilter(filter), expected: expected?.count ?? null }
}

export function showGroup({ isExact, ...group }: DeadGroup): Readonly<Record<string, unknown>> {
  return { ...group, exact: isExact }
}

/** A schedule with its next times, reckoned here: the store is not asked once for each. */
export function showSchedule(
  schedule: ScheduleStatus,
  { who, nowMs, redact }: { readonly who: Who; readonly nowMs: number; readonly redact: MaskPlace | null },
): Readonly<Record<string, unknown>> {
  const masked = can(who, 'read:payload')
    ? mask('payload', schedule.payload, secretPlaces(schedule, redact))
    : { value: MASK, paths: ['payload'] }
  return { ...schedule, payload: masked.value, redacted: masked.paths, next: nextTimes(schedule, nowMs) }
}

function nextTimes({ cron, zone }: ScheduleStatus, nowMs: number): readonly Date[] {
  try {
    const parsed = parseCron(cron, zone)
    const times: Date[] = []
    let lastMs: number | null = nowMs
    while (times.length < NEXT_RUNS) {
      lastMs = parsed.next(lastMs)
      if (lastMs === null) break
      times.push(new Date(lastMs))
    }
    return times
  } catch {
    // An expression of an older version that is no longer one: the warnings say so.
    return []
  }
}

export function showWorker(worker: WorkerView, who: Who, nowMs: number): Readonly<Record<string, unknown>> {
  const heartbeatAgeMs = Math.max(0, Math.round(nowMs - worker.seenAt.getTime()))
  const jobs = worker.jobs
    .filter(({ queue }) => maySee(who, queue))
    .map(({ startedAtMs, ...job }) => ({ ...job, startedAt: new Date(startedAtMs) }))
  const queues = worker.queues.filter((queue) => maySee(who, queue))
  // Whose types they are cannot be told.
  const types = who.queues === null ? worker.types : null
  return { ...worker, queues, types, jobs, heartbeatAgeMs, live: heartbeatAgeMs <= WORKER_LIVE_MS }
}
