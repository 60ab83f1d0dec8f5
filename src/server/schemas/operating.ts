// Bulk actions, schedules, workers, the audit log, keys, sessions, warnings.

import { z } from 'zod'
import { BULK_ACTIONS, type BulkAction, KEY_SCOPES } from '../../core/operating.js'
import { VIAS } from '../who.js'
import {
  duration,
  filter,
  id,
  limitShape,
  limits,
  type MaybeName,
  type MaybeWhole,
  name,
  time,
  whole,
  wholeText,
} from './basics.js'

const pace = {
  all: z
    .boolean()
    .optional()
    .meta({ description: 'True when every job is meant: needed with a filter that leaves none out' }),
  expected: whole
    .optional()
    .meta({ description: 'How many jobs it is about, as a dry run said in `can`. When more match, nothing is done' }),
  perSecond: whole.nullable().optional(),
  limit: whole.optional(),
  dryRun: z.boolean().optional(),
}

interface PaceBody {
  readonly all?: boolean | undefined
  readonly expected?: number | undefined
  readonly perSecond?: number | null | undefined
  readonly limit?: number | undefined
  readonly dryRun?: boolean | undefined
}

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

export const bulk: z.ZodType = z
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

export const bulks: z.ZodType = z.object({ bulks: z.array(bulk) })
export const dryRun: z.ZodType = z.object({ matches: whole, can: whole, exact: z.boolean() }).meta({ id: 'DryRun' })

export const limitQuery: z.ZodObject<{ limit: MaybeWhole }> = z.strictObject({ limit: wholeText.optional() })

/** What the route itself looks at; the rest are the library's options. */
export interface ScheduleBody {
  readonly type: string
  readonly queue?: string | undefined
}
export const scheduleBody: z.ZodType<ScheduleBody> = z.strictObject({
  cron: z.string().max(200),
  zone: z.string().max(100).optional(),
  type: name,
  payload: z.unknown().optional(),
  queue: name.optional(),
  priority: whole.optional(),
  ...limitShape,
  tags: z.array(z.string().max(200)).max(64).optional(),
  catchUp: z.enum(['skip', 'latest', 'all']).optional(),
  catchUpMax: whole.optional(),
  overlap: z.enum(['allow', 'skip']).optional(),
})

export const schedule: z.ZodType = z
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

export const schedules: z.ZodType = z.object({ schedules: z.array(schedule) })

export const workers: z.ZodType = z.object({
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
      })
      .meta({ id: 'Worker' }),
  ),
})

export const auditQuery: z.ZodObject<{
  before: MaybeWhole
  limit: MaybeWhole
  actor: MaybeName
  action: MaybeName
  job: MaybeName
}> = z.strictObject({
  before: wholeText.optional(),
  limit: wholeText.optional(),
  actor: z.string().max(200).optional(),
  action: z.string().max(100).optional(),
  job: id.optional(),
})

export const audit: z.ZodType = z.object({
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

export const warnings: z.ZodType = z.object({
  warnings: z.array(
    z
      .object({
        code: z.string(),
        level: z.enum(['error', 'warning', 'note']),
        text: z.string(),
        queue: z.string().nullable(),
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

export const apiKey: z.ZodType = z
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

export const apiKeys: z.ZodType = z.object({ keys: z.array(apiKey) })
export const createdKey: z.ZodType = z.object({ key: apiKey, secret: z.string() })

export const me: z.ZodType = z.object({
  name: z.string(),
  scopes: z.array(z.enum(KEY_SCOPES)),
  queues: z.array(z.string()).nullable(),
  via: z.enum(VIAS),
  environment: z.object({ name: z.string(), colour: z.string().nullable() }).nullable(),
  version: z.string(),
  store: z.enum(['memory', 'postgres', 'redis']),
  readOnly: z.boolean(),
})

export interface SignInBody {
  readonly token: string
}
export const signIn: z.ZodType<SignInBody> = z.strictObject({ token: z.string().min(1).max(600) })
export const signedIn: z.ZodType = z.object({ name: z.string(), scopes: z.array(z.enum(KEY_SCOPES)) })

export const ok: z.ZodType = z.object({ status: z.literal('ok') })
export const document: z.ZodType = z.record(z.string(), z.unknown())
