// Jobs as requests write them and answers show them.

import { z } from 'zod'
import { type Explanation, REASON_CODES } from '../../core/explain.js'
import type { StoredError } from '../../core/json.js'
import type { JobState } from '../../core/states.js'
import type { JobSummary as CoreSummary, JobView } from '../../core/views.js'
import {
  duration,
  filterText,
  id,
  limitShape,
  name,
  type Query,
  reason,
  state,
  time,
  type Wire,
  whole,
  wholeText,
} from './basics.js'
import { jobFlow, jobFlowShape } from './flow.js'

export type JobError = Wire<StoredError>

const error: z.ZodType<JobError> = z
  .object({ name: z.string(), message: z.string(), code: z.string().optional(), stack: z.string().optional() })
  .meta({ id: 'JobError' })

/** A job in a list. */
export type JobSummary = Wire<CoreSummary>

const summaryShape = {
  id,
  type: z.string(),
  queue: z.string(),
  state,
  version: whole,
  priority: whole,
  attempt: whole,
  crashes: whole,
  maxAttempts: whole,
  runAt: time.nullable(),
  createdAt: time,
  startedAt: time.nullable(),
  finishedAt: time.nullable(),
  reason: reason.nullable(),
  error: error.nullable(),
  worker: z.string().nullable(),
  leasedUntil: time.nullable(),
  cancelRequested: z.boolean(),
  tags: z.array(z.string()),
  idempotencyKey: z.string().nullable(),
  after: z.array(id),
  onParentDead: z.enum(['cancel', 'run']),
  schedule: z.object({ name: z.string(), tick: time }).nullable(),
  enqueuedBy: z.string().optional(),
  flow: jobFlow.optional(),
}

const jobSummary: z.ZodType<JobSummary> = z.object(summaryShape).meta({ id: 'JobSummary' })

/** Everything about one job. */
export interface Job extends Wire<JobView> {
  /** Where values were masked, as `payload.user.password`. */
  readonly redacted: readonly string[]
}

export const job: z.ZodType<Job> = z
  .object({
    ...summaryShape,
    payload: z.unknown(),
    result: z.unknown(),
    progress: z.unknown(),
    attempts: z.array(
      z.object({ attempt: whole, worker: z.string().nullable(), startedAt: time.nullable(), finishedAt: time, error }),
    ),
    logs: z.array(z.object({ at: time, text: z.string() })),
    steps: z
      .array(
        z.object({
          kind: z.enum(['step', 'effect', 'wait']),
          name: z.string(),
          attempt: whole,
          begun: whole,
          beganAt: time,
          endedAt: time.nullable(),
        }),
      )
      .optional()
      .meta({ description: 'What its handler has kept, without the values' }),
    wait: z
      .object({ name: z.string(), since: time, until: time })
      .optional()
      .meta({ description: 'The signal it waits for' }),
    outbox: z
      .object({
        outcome: z.enum(['waiting', 'deduplicated', 'refused', 'cancelled']),
        since: time,
        why: z.string().nullable(),
        holder: z.string().nullable(),
      })
      .optional()
      .meta({ description: 'Set while the job is in the outbox alone: Redis does not have it' }),
    requeues: z.array(z.object({ number: whole, at: time, by: z.string() })),
    redacted: z.array(z.string()).meta({ description: 'Where values were masked' }),
  })
  .meta({ id: 'Job' })

/** Where a page ended: an id, or an encrypted one. */
const cursor = z.string().max(200)

export interface JobPage {
  readonly jobs: readonly JobSummary[]
  readonly cursor: string | null
  readonly searched: number | null
  readonly searchedTo: string | null
}

export const jobPage: z.ZodType<JobPage> = z.object({
  jobs: z.array(jobSummary),
  cursor: cursor.nullable().meta({ description: 'Give it to the next request; null at the end' }),
  searched: whole
    .nullable()
    .meta({ description: 'How many jobs were searched; null for a key limited to some queues' }),
  searchedTo: time
    .nullable()
    .meta({ description: 'When the oldest of them was created, if the search stopped before the end' }),
})

const key = z.string().max(400)

const enqueueShape = {
  queue: name.optional(),
  priority: whole.optional(),
  lifo: z.boolean().optional().meta({ description: 'Newest first among equal priorities. Not with a group' }),
  runAt: z.string().max(60).optional(),
  startBy: z.string().max(60).optional(),
  delay: duration.optional(),
  ...limitShape,
  idempotencyKey: z.union([key, z.strictObject({ key, for: duration })]).optional(),
  debounce: z.strictObject({ key, wait: duration, maxWait: duration.optional() }).optional(),
  replace: z.strictObject({ key }).optional(),
  throttle: z.strictObject({ key, for: duration }).optional(),
  ...jobFlowShape,
  onFull: z
    .enum(['reject', 'wait'])
    .optional()
    .meta({ description: 'Of a queue or group that is full: answer 429, or wait up to 30 s first. Not in a batch' }),
  after: z.union([id, z.array(id).max(100)]).optional(),
  onParentDead: z.enum(['cancel', 'run']).optional(),
  tags: z.array(z.string().max(200)).max(64).optional(),
}

/** What the routes and the dashboard use of it; the rest are the library's options. */
export interface CloneBody {
  readonly payload?: unknown
  readonly queue?: string | undefined
  readonly delay?: number | string | undefined
  readonly after?: string | readonly string[] | undefined
  readonly limits?: readonly string[] | undefined
  readonly onFull?: 'reject' | 'wait' | undefined
}

export interface NewJobBody extends CloneBody {
  readonly type: string
}

export const newJob: z.ZodType<NewJobBody> = z
  .strictObject({ type: name, payload: z.unknown().optional(), ...enqueueShape })
  .meta({ id: 'NewJob', example: { type: 'send_email', payload: { to: 'ada@example.com' }, queue: 'mail' } })

export const newJobs: z.ZodType<{ readonly jobs: readonly NewJobBody[] }> = z.strictObject({
  jobs: z.array(newJob).min(1).max(5_000),
})

export const clone: z.ZodType<CloneBody> = z.strictObject({ payload: z.unknown().optional(), ...enqueueShape })

export interface Enqueued {
  readonly id: string
  readonly created: boolean
  readonly state: JobState
  readonly replaced?: true | undefined
}

export const enqueued: z.ZodType<Enqueued> = z
  .object({
    id,
    created: z.boolean(),
    state,
    replaced: z.literal(true).optional().meta({ description: 'A job that waited took this payload' }),
  })
  .meta({ id: 'Enqueued' })
export const enqueuedMany: z.ZodType<{ readonly jobs: readonly Enqueued[] }> = z.object({ jobs: z.array(enqueued) })

/** What may be changed of a job that waits. */
export interface ChangesBody {
  readonly priority?: number | undefined
  readonly runAt?: string | null | undefined
  readonly delay?: number | string | undefined
  readonly payload?: unknown
}

export const changes: z.ZodType<ChangesBody> = z.strictObject({
  priority: whole.optional(),
  runAt: z.string().max(60).nullable().optional(),
  delay: duration.optional(),
  payload: z.unknown().optional(),
})

export const nothing: z.ZodType = z.strictObject({})

export const listQuery: Query<'filter' | 'cursor', 'limit'> = z.strictObject({
  filter: filterText.optional(),
  limit: wholeText.optional(),
  cursor: cursor.optional(),
})

export const outputQuery: Query<never, 'from'> = z.strictObject({ from: wholeText.optional() })

export const countQuery: Query<'filter', 'max'> = z.strictObject({
  filter: filterText.optional(),
  max: wholeText.optional(),
})

export interface Count {
  readonly count: number
  readonly exact: boolean
}

export const count: z.ZodType<Count> = z.object({ count: whole, exact: z.boolean() })

export type { Explanation }

export const explanation: z.ZodType<Explanation> = z.object({
  state,
  summary: z.string(),
  reasons: z.array(
    z.object({ code: z.enum(REASON_CODES), text: z.string(), facts: z.record(z.string(), z.unknown()) }),
  ),
  next: z.array(z.string()),
})

/** Where a job is after an action. */
export interface Moved {
  readonly id: string
  readonly state: JobState
}

export const moved: z.ZodType<Moved> = z.object({ id, state })
export const cancelled: z.ZodType<{ readonly id: string; readonly result: 'cancelled' | 'asked' }> = z.object({
  id,
  result: z.enum(['cancelled', 'asked']),
})

export const deleted: z.ZodType<{ readonly id: string; readonly result: 'deleted' | 'asked' }> = z.object({
  id,
  result: z.enum(['deleted', 'asked']),
})

export const deleteQuery: Query<'cancel'> = z.strictObject({
  cancel: z
    .enum(['true', 'false'])
    .optional()
    .meta({ description: 'true: a running job is asked to stop, instead of refused' }),
})

export interface SignalBody {
  readonly name: string
  readonly value?: unknown
  readonly key?: string | undefined
}

export const signalBody: z.ZodType<SignalBody> = z
  .strictObject({
    name: z.string().meta({ description: 'What the job waits for' }),
    value: z.unknown().optional().meta({ description: 'Any JSON value, up to 256 KiB' }),
    key: z.string().optional().meta({ description: 'Two signals of one job with the same key are one' }),
  })
  .meta({ id: 'Signal' })

export const signalSent: z.ZodType<{ readonly id: string; readonly woken: boolean }> = z.object({
  id,
  woken: z.boolean().meta({ description: 'Whether the job waited for it and is ready now' }),
})

export interface Requeued extends Moved {
  readonly requeues: number
}

export const requeued: z.ZodType<Requeued> = z.object({
  id,
  state: z.literal('ready'),
  requeues: whole.meta({ description: 'How many times the job was requeued, this time included' }),
})
