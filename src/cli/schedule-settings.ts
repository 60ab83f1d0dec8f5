// A schedule's settings as options again, so that a command can change one of them and leave the others as they are.

import { defineJob } from '../client/define-job.js'
import type { ScheduleOptions, ScheduleStatus } from '../client/schedules.js'
import type { JobLimits } from '../core/limits.js'
import type { RetryOptions, RetryPolicy } from '../core/retry.js'

/** The options that would set this schedule as it stands, for jobs of the type it has. */
export function settingsOf(schedule: ScheduleStatus): ScheduleOptions {
  const { cron, zone, type, version, payload, queue, priority, tags, catchUp, catchUpMax, overlap, limits } = schedule
  // The payload is kept as it was written, so it stays at the version it was written for.
  const job = defineJob(type, { version })
  return { cron, zone, job, payload, queue, priority, tags, catchUp, catchUpMax, overlap, ...limitOptionsOf(limits) }
}

function limitOptionsOf({ maxAttempts, retry, timeoutMs, maxAgeMs }: JobLimits): Partial<ScheduleOptions> {
  return {
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
    ...(retry === undefined ? {} : { retry: retryOptionsOf(retry) }),
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
    ...(maxAgeMs === undefined ? {} : { maxAge: maxAgeMs }),
  }
}

function retryOptionsOf({ backoff, baseMs, capMs, jitter }: RetryPolicy): RetryOptions {
  return { backoff, base: baseMs, cap: capMs, jitter }
}
