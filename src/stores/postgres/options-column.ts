// The options column of jobs: what few jobs have, kept as one JSON value so that plain jobs pay nothing for it.

import type { IdempotencyKey, NewJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'

/** The schedule and tick that made a job. */
export interface TickOrigin {
  readonly name: string
  readonly tickMs: number
}

/** What the column holds. Absent fields have their usual value. */
export interface StoredOptions {
  readonly limits?: JobLimits
  readonly key?: IdempotencyKey
  readonly after?: readonly string[]
  readonly onParentDead?: 'run'
  readonly trace?: string
  readonly schedule?: TickOrigin
}

/** The column's text for a job, or null when everything is as usual. */
export function writeOptions(job: NewJob, schedule: TickOrigin | null): string | null {
  const options: StoredOptions = {
    ...(Object.keys(job.limits).length > 0 ? { limits: job.limits } : {}),
    ...(job.idempotencyKey === null ? {} : { key: job.idempotencyKey }),
    ...(job.after.length > 0 ? { after: job.after } : {}),
    ...(job.onParentDead === 'run' ? { onParentDead: 'run' } : {}),
    ...(job.trace === null ? {} : { trace: job.trace }),
    ...(schedule === null ? {} : { schedule }),
  }
  return Object.keys(options).length === 0 ? null : JSON.stringify(options)
}

const USUAL: StoredOptions = {}

/** Reads the column. */
export function readOptions(text: string | null | undefined): StoredOptions {
  return text === null || text === undefined ? USUAL : (JSON.parse(text) as StoredOptions)
}

const NO_LIMITS: JobLimits = {}

/** The limits in a queue's settings column. */
export function readQueueLimits(settings: string | null | undefined): JobLimits {
  if (settings === null || settings === undefined) return NO_LIMITS
  return (JSON.parse(settings) as { limits?: JobLimits }).limits ?? NO_LIMITS
}
