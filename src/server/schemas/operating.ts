// Bulk actions, schedules, workers, the audit log, keys, sessions, warnings.

import { z } from 'zod'
import type { Backfilled, TickView } from '../../client/backfill.js'
import type { BulkPreview, BulkRequest } from '../../client/bulk.js'
import {
  type ApiKey,
  BULK_ACTIONS,
  type BulkAction,
  type BulkView,
  type AuditEntry as CoreEntry,
  KEY_SCOPES,
  type KeyScope,
} from '../../core/operating.js'
import type { OutboxHealth } from '../../core/outbox.js'
import type { ScheduleView } from '../../core/schedule.js'
import type { WorkerJob, WorkerView } from '../../core/views.js'
import { VIAS, type Who } from '../who.js'
import {
  duration,
  filter,
  id,
  limitShape,
  limits,
  name,
  type Query,
  state,
  time,
  type Wire,
  whole,
  wholeText,
} from './basics.js'
import { jobFlow, jobFlowShape } from './flow.js'

const pace = {
  all: z
    .boolean()
    .optional()
    .meta({ description: 'True when every job is meant: required with a filter that matches every job' }),
  expected: whole
    .optional()
    .meta({ description: 'How many jobs it may change, as `can` of a dry run. When more match, nothing is done' }),
  perSecond: whole.nullable().optional(),
  limit: whole.optional(),
  dryRun: z.boolean().optional(),
}

type Pace = 'all' | 'expected' | 'perSecond' | 'limit' | 'dryRun'
type PaceBody = { readonly [Name in Pace]?: BulkRequest[Name] | undefined }

export interface BulkBody extends PaceBody {
  readonly action: BulkAction
  readonly filter: unknown
}
export const newBulk: z.ZodType<BulkBody> = z.strictObject({ action: z.enum(BULK_ACTIONS), filter, ...pace })

interface RequeueManyBody extends PaceBody {
  readonly filter?: unknown
  readonly fingerprint?: string | undefined
}
export const requeueMany: z.ZodType<RequeueManyBody> = z.strictObject({
  filter: filter.optional(),
  fingerprint: z.string().max(100).optional(),
  ...pace,
})

/** A bulk action. Its filter is text in the filter language. */
export interface Bulk extends Wire<Omit<BulkView, 'filter' | 'expected'>> {
  readonly filter: string
  /** How many jobs matched when it was started; null when that was not counted. */
  readonly expected: number | null
}

export const bulk: z.ZodType<Bulk> = z
  .object({
    id,
    action: z.enum(BULK_ACTIONS),
    filter: z.string(),
    by: z.string(),
    perSecond: whole.nullable(),
    limit: whole,
    expected: whole.nullable(),
    state: z.enum(['waiting', 'running', 'done', 'cancelled', 'failed']),
    matched: whole,
    done: whole,
    refused: whole,
    createdAt: time,
    updatedAt: time,
    error: z.string().nullable(),
  })
  .meta({ id: 'Bulk' })

export const bulks: z.ZodType<{ readonly bulks: readonly Bulk[] }> = z.object({ bulks: z.array(bulk) })

/** What a bulk action would do: how many jobs match, and how many of them it can change. */
export interface DryRun extends Omit<BulkPreview, 'isExact'> {
  readonly exact: boolean
}

export const dryRun: z.ZodType<DryRun> = z
  .object({ matches: whole, can: whole, exact: z.boolean() })
  .meta({ id: 'DryRun' })

export const limitQuery: Query<never, 'limit'> = z.strictObject({ limit: wholeText.optional() })

/** What the route itself uses; the rest are the library's options. */
export interface ScheduleBody {
  readonly type: string
  readonly queue?: string | undefined
  readonly limits?: readonly string[] | undefined
}
export const scheduleBody: z.ZodType<ScheduleBody> = z.strictObject({
  cron: z.string().max(200).optional(),
  every: duration.optional(),
  jitter: duration.optional(),
  until: time.optional(),
  zone: z.string().max(100).optional(),
  type: name,
  payload: z.unknown().optional(),
  queue: name.optional(),
  priority: whole.optional(),
  ...limitShape,
  ...jobFlowShape,
  tags: z.array(z.string().max(200)).max(64).optional(),
  catchUp: z.enum(['skip', 'latest', 'all']).optional(),
  catchUpMax: whole.optional(),
  overlap: z.enum(['allow', 'skip']).optional(),
})

/** A schedule with its next times. */
export interface Schedule extends Wire<Omit<ScheduleView, 'payload'>> {
  readonly payload: unknown
  readonly redacted: readonly string[]
  readonly next: readonly string[]
}

export const schedule: z.ZodType<Schedule> = z
  .object({
    name: z.string(),
    cron: z.string(),
    zone: z.string(),
    queue: z.string(),
    type: z.string(),
    payload: z.unknown(),
    redacted: z.array(z.string()),
    version: whole,
    priority: whole,
    limits,
    flow: jobFlow.optional(),
    tags: z.array(z.string()),
    catchUp: z.enum(['skip', 'latest', 'all']),
    catchUpMax: whole,
    overlap: z.enum(['allow', 'skip']),
    paused: z.boolean(),
    nextAt: time.nullable(),
    lastAt: time.nullable(),
    lastJobId: id.nullable(),
    next: z.array(time),
  })
  .meta({ id: 'Schedule' })

export const ticks: z.ZodType<{ readonly ticks: readonly Wire<TickView>[] }> = z.object({
  ticks: z.array(z.object({ tick: time, jobId: id, state })),
})

export interface BackfillBody {
  readonly from: string
  readonly to: string
  readonly dryRun?: boolean | undefined
}
export const backfillBody: z.ZodType<BackfillBody> = z.strictObject({
  from: z.string().max(60).meta({ description: 'The first moment of the range' }),
  to: z.string().max(60).meta({ description: 'The last one, not in the future' }),
  dryRun: z.boolean().optional().meta({ description: 'true: only says which ticks have no job' }),
})

export const backfilled: z.ZodType<Wire<Backfilled>> = z.object({
  ticks: z.array(z.object({ tick: time, jobId: id.nullable() })),
  made: whole,
})

export const schedules: z.ZodType<{ readonly schedules: readonly Schedule[] }> = z.object({
  schedules: z.array(schedule),
})

/** A worker, and the jobs it runs that the caller may see. */
export interface Worker extends Wire<Omit<WorkerView, 'jobs'>> {
  readonly jobs: readonly (Omit<WorkerJob, 'startedAtMs'> & { readonly startedAt: string })[]
  readonly heartbeatAgeMs: number
  readonly live: boolean
}

export const workers: z.ZodType<{ readonly workers: readonly Worker[] }> = z.object({
  workers: z.array(
    z
      .object({
        id: z.string(),
        host: z.string(),
        pid: whole,
        queues: z.array(z.string()),
        types: z.array(z.string()).nullable(),
        concurrency: whole,
        running: whole,
        draining: z.boolean(),
        version: z.string(),
        startedAt: time,
        seenAt: time,
        heartbeatAgeMs: z.number(),
        live: z.boolean(),
        jobs: z.array(z.object({ id, type: z.string(), queue: z.string(), attempt: whole, startedAt: time })),
        children: z.object({ running: whole, restarts: whole }).nullable(),
      })
      .meta({ id: 'Worker' }),
  ),
})

export type EventsQuery = z.output<typeof eventsQuery>
export const eventsQuery: Query<'names' | 'queue'> = z.strictObject({
  names: z.string().max(200).optional(),
  queue: name.optional(),
})

export const auditQuery: Query<'actor' | 'action' | 'job', 'before' | 'limit'> = z.strictObject({
  before: wholeText.optional(),
  limit: wholeText.optional(),
  actor: z.string().max(200).optional(),
  action: z.string().max(100).optional(),
  job: id.optional(),
})

export type AuditEntry = Wire<CoreEntry>

export interface AuditPage {
  readonly entries: readonly AuditEntry[]
  readonly next: number | null
}

export const audit: z.ZodType<AuditPage> = z.object({
  entries: z.array(
    z
      .object({
        line: whole,
        at: time,
        actor: z.string(),
        action: z.string(),
        job: id.nullable(),
        target: z.string().nullable(),
        details: z.unknown(),
      })
      .meta({ id: 'AuditEntry' }),
  ),
  next: whole.nullable(),
})

export interface Warning {
  readonly code: string
  readonly level: 'error' | 'warning' | 'note'
  readonly text: string
  /** The queue it is about; null when it is about the system. */
  readonly queue: string | null
  /** The limit it is about. */
  readonly limit?: string | undefined
  /** What to do about it. */
  readonly next: string
}

export const warnings: z.ZodType<{ readonly warnings: readonly Warning[] }> = z.object({
  warnings: z.array(
    z
      .object({
        code: z.string(),
        level: z.enum(['error', 'warning', 'note']),
        text: z.string(),
        queue: z.string().nullable(),
        limit: z.string().optional(),
        next: z.string(),
      })
      .meta({ id: 'Warning' }),
  ),
})

const scopes = z.array(z.enum(KEY_SCOPES)).min(1)

export const newKey: z.ZodType = z.strictObject({
  name: z.string().max(200),
  scopes,
  queues: z.array(name).nullable().optional(),
  expiresIn: duration.nullable().optional(),
  expiresAt: z.string().max(60).nullable().optional(),
})

export const apiKey: z.ZodType<Wire<ApiKey>> = z
  .object({
    id: z.string(),
    name: z.string(),
    scopes: z.array(z.enum(KEY_SCOPES)),
    queues: z.array(z.string()).nullable(),
    createdAt: time,
    expiresAt: time.nullable(),
    revokedAt: time.nullable(),
    lastUsedAt: time.nullable(),
  })
  .meta({ id: 'ApiKey' })

export const apiKeys: z.ZodType<{ readonly keys: readonly Wire<ApiKey>[] }> = z.object({ keys: z.array(apiKey) })
export const createdKey: z.ZodType<{ readonly key: Wire<ApiKey>; readonly secret: string }> = z.object({
  key: apiKey,
  secret: z.string(),
})

/** Who the caller is, and what server they talk to. */
export interface Me extends Pick<Who, 'name' | 'scopes' | 'queues' | 'via'> {
  readonly environment: { readonly name: string; readonly colour: string | null } | null
  readonly version: string
  readonly store: 'memory' | 'postgres' | 'redis'
  /** Whether jobs of PostgreSQL transactions reach the store through an outbox. */
  readonly outbox: boolean
  readonly readOnly: boolean
}

export const me: z.ZodType<Me> = z.object({
  name: z.string(),
  scopes: z.array(z.enum(KEY_SCOPES)),
  queues: z.array(z.string()).nullable(),
  via: z.enum(VIAS),
  environment: z.object({ name: z.string(), colour: z.string().nullable() }).nullable(),
  version: z.string(),
  store: z.enum(['memory', 'postgres', 'redis']),
  outbox: z.boolean(),
  readOnly: z.boolean(),
})

/** What waits in the outbox. With `reachable` false the other figures are not known. */
export interface Outbox extends Omit<OutboxHealth, 'isReachable' | 'isExact'> {
  readonly reachable: boolean
  readonly exact: boolean
}

/** `outbox` is null for a store without one. */
export const outbox: z.ZodType<{ readonly outbox: Outbox | null }> = z.object({
  outbox: z
    .object({
      reachable: z.boolean(),
      schema: z.string(),
      waiting: whole,
      exact: z.boolean(),
      oldestMs: z.number(),
      refused: whole,
      roundTripMs: z.number(),
    })
    .meta({ id: 'Outbox' })
    .nullable(),
})

export interface SignInBody {
  readonly token: string
}
export const signIn: z.ZodType<SignInBody> = z.strictObject({ token: z.string().min(1).max(600) })
export const signedIn: z.ZodType<{ readonly name: string; readonly scopes: readonly KeyScope[] }> = z.object({
  name: z.string(),
  scopes: z.array(z.enum(KEY_SCOPES)),
})

export const ok: z.ZodType<{ readonly status: 'ok' }> = z.object({ status: z.literal('ok') })
export const document: z.ZodType = z.record(z.string(), z.unknown())
