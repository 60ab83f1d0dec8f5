// Limits, groups and what jobs say about them.

import { z } from 'zod'
import type { JobFlowStatus } from '../../client/flow-calls.js'
import type { JobFlow } from '../../core/flow/job-flow.js'
import type {
  QueueFlow as CoreQueueFlow,
  GroupOverride,
  GroupSettings,
  LimitSettings,
  Rate,
} from '../../core/flow/settings.js'
import type { BreakerView, GroupView, LimitView } from '../../core/flow/views.js'
import { duration, id, name, type Query, time, type Wire, whole, wholeText } from './basics.js'

/** The name of a group: any text. */
const groupName: z.ZodString = z.string().max(200).meta({ description: 'Any text of 1 to 200 characters' })

// As requests write them, in the library's option names. Null stands for "not bounded", as in answers.

const rateOption = z
  .union([
    z.string().max(20),
    z.strictObject({
      limit: whole,
      per: duration,
      burst: whole.optional(),
      counts: z.enum(['starts', 'cost']).optional(),
    }),
  ])
  .meta({ id: 'RateOption', description: "Such as '100/s', '1000/m', '5/h', '10/d', or its parts", example: '100/s' })

const boundShape = { concurrency: whole.nullable().optional(), rate: rateOption.nullable().optional() }

export const limitBody: z.ZodType<Readonly<Record<string, unknown>>> = z
  .strictObject({
    concurrency: z
      .union([whole, z.strictObject({ min: whole, max: whole })])
      .nullable()
      .optional()
      .meta({ description: 'How many jobs run concurrently; { min, max } finds out by itself' }),
    rate: rateOption.nullable().optional(),
    breaker: z
      .strictObject({
        failures: z.number().optional(),
        of: whole.optional(),
        within: duration.optional(),
        cooldown: duration.optional(),
        cooldownMax: duration.optional(),
        probes: whole.optional(),
      })
      .nullable()
      .optional(),
  })
  .meta({ id: 'LimitOptions', example: { concurrency: 20, rate: '100/s', breaker: { failures: 0.5 } } })

export const overrideBody: z.ZodType<Readonly<Record<string, unknown>>> = z
  .strictObject({ ...boundShape, weight: whole.optional() })
  .meta({ id: 'GroupOptions', example: { concurrency: 10, weight: 3 } })

/** The part of a queue's settings that is about flow control. */
export const queueFlowShape: Readonly<
  Record<'concurrency' | 'rate' | 'groups' | 'maxDepth' | 'onFull' | 'aging', z.ZodOptional<z.ZodType>>
> = {
  ...boundShape,
  groups: z
    .strictObject({
      ...boundShape,
      ordered: z.boolean().optional(),
      onRetry: z.enum(['wait', 'pass']).optional(),
      onDead: z.enum(['continue', 'stop']).optional(),
      maxDepth: whole.nullable().optional(),
    })
    .nullable()
    .optional(),
  maxDepth: whole.nullable().optional(),
  onFull: z.enum(['reject', 'wait']).nullable().optional(),
  aging: duration.nullable().optional(),
}

/** What an enqueue and a schedule say about flow control. */
export const jobFlowShape: {
  readonly group: z.ZodOptional<z.ZodType<string>>
  readonly limits: z.ZodOptional<z.ZodType<string[]>>
  readonly cost: z.ZodOptional<z.ZodType<number>>
} = {
  group: groupName.optional(),
  limits: z.array(name).max(16).optional(),
  cost: whole.optional(),
}

// As answers show them.

const rate: z.ZodType<Rate> = z
  .object({ limit: z.number(), perMs: z.number(), burst: z.number(), counts: z.enum(['starts', 'cost']) })
  .meta({ id: 'Rate', description: 'A token bucket: over any time T at most burst + T × limit / perMs' })

const bounds = { concurrency: whole.nullable(), rate: rate.nullable() }

const groupSettings: z.ZodType<GroupSettings> = z.object({
  ...bounds,
  ordered: z.boolean(),
  onRetry: z.enum(['wait', 'pass']),
  onDead: z.enum(['continue', 'stop']),
  maxDepth: whole.nullable(),
})

export type QueueFlow = Wire<CoreQueueFlow>

export const queueFlow: z.ZodType<QueueFlow> = z
  .object({
    ...bounds,
    groups: groupSettings,
    maxDepth: whole.nullable(),
    onFull: z.enum(['reject', 'wait']),
    agingMs: z.number().nullable(),
  })
  .meta({ id: 'QueueFlow', description: 'Flow control of a queue' })

export const jobFlow: z.ZodType<JobFlow> = z
  .object({ group: z.string().nullable(), limits: z.array(z.string()), cost: whole })
  .meta({ id: 'JobFlow', description: 'The group and limits of a job; absent for a plain one' })

const position = z.enum(['closed', 'open', 'half_open'])

const breakerSettings: z.ZodType<NonNullable<LimitSettings['breaker']>> = z
  .object({
    failures: z.number(),
    of: whole,
    withinMs: z.number(),
    cooldownMs: z.number(),
    cooldownMaxMs: z
      .number()
      .exactOptional()
      .meta({ description: 'It stays open no longer; absent for 10 minutes, or cooldownMs where that is longer' }),
    probes: whole,
  })
  .meta({ id: 'BreakerSettings' })

/** A breaker. Counts are null for callers who may not know how much others run. */
export interface Breaker extends Omit<Wire<BreakerView>, 'since' | 'ok' | 'failed' | 'history'> {
  /** Null for one that has never moved. */
  readonly since: string | null
  readonly ok: number | null
  readonly failed: number | null
  /** Newest first. */
  readonly history: readonly BreakerChange[]
}

interface BreakerChange extends Omit<Wire<BreakerView['history'][number]>, 'ok' | 'failed'> {
  readonly ok: number | null
  readonly failed: number | null
}

const breaker: z.ZodType<Breaker> = z
  .object({
    settings: breakerSettings.nullable(),
    position,
    since: time.nullable().meta({ description: 'When it came to this position; null for one that has never moved' }),
    probeAt: time.nullable(),
    opens: whole,
    forced: z.enum(['open', 'closed']).nullable(),
    ok: whole.nullable(),
    failed: whole.nullable(),
    history: z.array(
      z.object({
        at: time,
        from: position,
        to: position,
        ok: whole.nullable(),
        failed: whole.nullable(),
        by: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'Breaker' })

/** A limit. What it counts is null for callers limited to some queues: others may share it. */
export interface Limit extends Omit<Wire<LimitView>, 'running' | 'tokens' | 'breaker'> {
  readonly running: number | null
  readonly tokens: number | null
  readonly breaker: Breaker | null
}

const limitShape = {
  name: z.string(),
  origin: z.enum(['operator', 'definition']),
  concurrency: whole.nullable(),
  adaptive: z.object({ min: whole, max: whole }).nullable(),
  level: whole.nullable(),
  rate: rate.nullable(),
  running: whole.nullable().meta({ description: 'Null for a key limited to some queues: others may share the limit' }),
  tokens: z.number().nullable(),
  until: time.nullable().meta({ description: 'Nothing starts before: a handler was told to wait' }),
  breaker: breaker.nullable(),
}

const limit: z.ZodType<Limit> = z.object(limitShape).meta({ id: 'Limit' })

export interface LimitPage {
  readonly limits: readonly Limit[]
  readonly cursor: string | null
}

export const limitPage: z.ZodType<LimitPage> = z.object({
  limits: z.array(limit),
  cursor: z.string().nullable().meta({ description: 'Give it to the next request; null at the end' }),
})

/** A limit, and the queues whose jobs name it. */
export interface LimitDetails extends Limit {
  readonly users: readonly LimitUser[]
}

interface LimitUser {
  readonly queue: string
  /** All limits that these jobs name. */
  readonly limits: readonly string[]
  /** Counted up to 1,000. */
  readonly ready: number
}

export const limitDetails: z.ZodType<LimitDetails> = z
  .object({
    ...limitShape,
    users: z
      .array(
        z.object({
          queue: z.string(),
          limits: z.array(z.string()),
          ready: whole.meta({ description: 'How many of them are ready, counted up to 1,000' }),
        }),
      )
      .meta({ description: 'Whose jobs name it' }),
  })
  .meta({ id: 'LimitDetails' })

export const pageQuery: Query<'prefix' | 'cursor', 'limit'> = z.strictObject({
  prefix: z.string().max(200).optional(),
  cursor: z.string().max(200).optional(),
  limit: wholeText.optional(),
})

export type Group = Wire<GroupView>

const override: z.ZodType<GroupOverride> = z.object({ ...bounds, weight: whole })

export const group: z.ZodType<Group> = z
  .object({
    group: z.string(),
    ready: whole.meta({ description: 'Counted up to 10,000' }),
    running: whole,
    paused: z.boolean(),
    stoppedBy: id.nullable().meta({ description: 'The job whose death paused it' }),
    until: time.nullable(),
    override: override.nullable(),
  })
  .meta({ id: 'Group' })

export interface GroupPage {
  readonly groups: readonly Group[]
  readonly cursor: string | null
}

export const groupPage: z.ZodType<GroupPage> = z.object({
  groups: z.array(group),
  cursor: z.string().nullable().meta({ description: 'Give it to the next request; null at the end' }),
})

export const groupParams: z.ZodObject<{ name: z.ZodString; group: z.ZodString }> = z.strictObject({
  name,
  group: groupName,
})

export const groupQuery: Query<'group'> = z.strictObject({
  group: groupName.optional().meta({
    description: 'Replaces the group of the path, for the names that no path can have: `.` and `..`',
  }),
})

/** What flow control knows about one job. */
export interface JobFlowView extends Omit<Wire<JobFlowStatus>, 'limits'> {
  readonly limits: readonly (Limit & { readonly waitMs: number })[]
}

const jobsAround = z.array(z.object({ id, type: z.string() }))

export const jobFlowView: z.ZodType<JobFlowView> = z
  .object({
    flow: jobFlow.nullable(),
    group: z
      .object({
        name: z.string(),
        concurrency: whole.nullable(),
        running: whole,
        ordered: z.boolean(),
        paused: z.boolean(),
        stoppedBy: id.nullable(),
        until: time.nullable(),
        waitMs: z.number(),
        first: z.object({ id, state: z.string(), runAt: time.nullable() }).nullable(),
        neighbours: z
          .object({ running: jobsAround, before: jobsAround, after: jobsAround })
          .meta({ description: 'Those that run, and the ready ones before and after it, the nearest first' }),
      })
      .nullable(),
    limits: z.array(z.object({ ...limitShape, waitMs: z.number() })),
  })
  .meta({ id: 'JobFlowStatus' })
