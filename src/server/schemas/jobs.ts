// Jobs as requests write them and answers show them.

import { z } from 'zod'
import {
  duration,
  filterText,
  id,
  limitShape,
  type MaybeName,
  type MaybeText,
  type MaybeWhole,
  name,
  reason,
  state,
  time,
  whole,
  wholeText,
} from './basics.js'

const error = z
  .object({ name: z.string(), message: z.string(), code: z.string().optional(), stack: z.string().optional() })
  .meta({ id: 'JobError' })

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
}

const jobSummary: z.ZodType = z.object(summaryShape).meta({ id: 'JobSummary' })

export const jobView: z.ZodType = z
  .object({
    ...summaryShape,
    payload: z.unknown(),
    result: z.unknown(),
    progress: z.unknown(),
    attempts: z.array(
      z.object({ attempt: whole, worker: z.string().nullable(), startedAt: time.nullable(), finishedAt: time, error }),
    ),
    logs: z.array(z.object({ at: time, text: z.string() })),
    requeues: z.array(z.object({ number: whole, at: time, by: z.string() })),
    redacted: z.array(z.string()).meta({ description: 'Where values were masked' }),
  })
  .meta({ id: 'Job' })

/** Where a page ended: an id, or one that is sealed. */
const cursor = z.string().max(200)

export const jobPage: z.ZodType = z.object({
  jobs: z.array(jobSummary),
  cursor: cursor.nullable().meta({ description: 'Give it to the next request; null at the end' }),
  searched: whole
    .nullable()
    .meta({ description: 'How many jobs were looked through; null for a key kept to some queues' }),
  searchedTo: time.nullable(),
})

const enqueueShape = {
  queue: name.optional(),
  priority: whole.optional(),
  runAt: z.string().max(60).optional(),
  delay: duration.optional(),
  ...limitShape,
  idempotencyKey: z
    .union([z.string().max(400), z.strictObject({ key: z.string().max(400), for: duration })])
    .optional(),
  after: z.union([id, z.array(id).max(100)]).optional(),
  onParentDead: z.enum(['cancel', 'run']).optional(),
  tags: z.array(z.string().max(200)).max(64).optional(),
}

/** What the route itself looks at; the rest are the library's options. */
export interface NewJobBody {
  readonly type: string
  readonly payload?: unknown
  readonly queue?: string | undefined
  readonly after?: string | readonly string[] | undefined
}

export const newJob: z.ZodType<NewJobBody> = z
  .strictObject({ type: name, payload: z.unknown().optional(), ...enqueueShape })
  .meta({ id: 'NewJob', example: { type: 'send_email', payload: { to: 'ada@example.com' }, queue: 'mail' } })

export const newJobs: z.ZodType<{ readonly jobs: readonly NewJobBody[] }> = z.strictObject({
  jobs: z.array(newJob).min(1).max(5_000),
})

export const enqueued: z.ZodType = z.object({ id, created: z.boolean(), state }).meta({ id: 'Enqueued' })

export type CloneBody = Omit<NewJobBody, 'type'>
export const clone: z.ZodType<CloneBody> = z.strictObject({ payload: z.unknown().optional(), ...enqueueShape })

export const changes: z.ZodType = z.strictObject({
  priority: whole.optional(),
  runAt: z.string().max(60).nullable().optional(),
  delay: duration.optional(),
  payload: z.unknown().optional(),
})

export const nothing: z.ZodType = z.strictObject({})

export const listQuery: z.ZodObject<{ filter: MaybeText; limit: MaybeWhole; cursor: MaybeName }> = z.strictObject({
  filter: filterText.optional(),
  limit: wholeText.optional(),
  cursor: cursor.optional(),
})

export const countQuery: z.ZodObject<{ filter: MaybeText; max: MaybeWhole }> = z.strictObject({
  filter: filterText.optional(),
  max: wholeText.optional(),
})

export const count: z.ZodType = z.object({ count: whole, exact: z.boolean() })

export const explanation: z.ZodType = z.object({
  state,
  summary: z.string(),
  reasons: z.array(z.object({ code: z.string(), text: z.string(), facts: z.record(z.string(), z.unknown()) })),
  next: z.array(z.string()),
})

export const moved: z.ZodType = z.object({ id, state })
export const cancelled: z.ZodType = z.object({ id, result: z.enum(['cancelled', 'asked']) })
export const requeued: z.ZodType = z.object({ id, state: z.literal('ready'), requeues: whole })
export const enqueuedMany: z.ZodType = z.object({ jobs: z.array(enqueued) })
