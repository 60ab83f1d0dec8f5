// Queues, series and groups of dead jobs.

import { z } from 'zod'
import type {
  DeadGroup as CoreGroup,
  QueueOverview as CoreOverview,
  SeriesPoint as CorePoint,
  Depth,
} from '../../core/operating.js'
import type { QueueSettings as CoreSettings, QueueView } from '../../core/views.js'
import { duration, id, limitShape, limits, name, type Query, time, type Wire, whole, wholeText } from './basics.js'
import { queueFlow, queueFlowShape } from './flow.js'

const depth = {
  blocked: whole,
  scheduled: whole,
  ready: whole,
  running: whole,
  retrying: whole,
  dead: whole,
}

export type QueueSettings = Wire<CoreSettings>

const settings: z.ZodType<QueueSettings> = z
  .object({ limits, retentionMs: z.number().optional(), flow: queueFlow.optional(), spread: whole.optional() })
  .meta({ id: 'QueueSettings' })

const queueShape = { name: z.string(), paused: z.boolean(), settings }

export const queueView: z.ZodType<Wire<QueueView>> = z.object(queueShape)

export type QueueOverview = Wire<CoreOverview>

export const queueOverview: z.ZodType<QueueOverview> = z
  .object({
    ...queueShape,
    ...depth,
    oldestAgeS: z.number(),
    workers: whole,
    slots: whole,
    rates: z
      .object({ enqueued: z.number(), succeeded: z.number(), failed: z.number(), dead: z.number() })
      .meta({ description: 'Per second, over the last minute' }),
  })
  .meta({ id: 'QueueOverview' })

export interface Overview {
  readonly queues: readonly QueueOverview[]
  readonly total: number
  readonly exact: boolean
  readonly now: string
}

export const overview: z.ZodType<Overview> = z
  .object({ queues: z.array(queueOverview), total: whole, exact: z.boolean(), now: time })
  .meta({ id: 'Overview' })

export const queueOptions: z.ZodType = z
  .strictObject({ ...limitShape, retention: duration.optional(), spread: whole.optional(), ...queueFlowShape })
  .meta({ id: 'QueueOptions', example: { maxAttempts: 5, concurrency: 50, groups: { concurrency: 2, rate: '10/s' } } })

export const paused: z.ZodType<Pick<QueueView, 'name' | 'paused'>> = z.object({ name: z.string(), paused: z.boolean() })

interface Stats extends Depth {
  readonly queue: string | null
  readonly oldest_age_s: number
  readonly attempts_p99: number
  readonly exact: boolean
}

export const stats: z.ZodType<Stats> = z.object({
  queue: z.string().nullable(),
  ...depth,
  oldest_age_s: z.number(),
  attempts_p99: z.number(),
  exact: z.boolean(),
})

export const queuesQuery: Query<never, 'offset'> = z.strictObject({ offset: wholeText.optional() })

export const queueQuery: Query<'queue'> = z.strictObject({ queue: name.optional() })

const durationText = z.string().max(40)
export const seriesQuery: Query<'queue' | 'since' | 'step'> = z.strictObject({
  queue: name.optional(),
  since: durationText.optional(),
  step: durationText.optional(),
})

export type SeriesPoint = Wire<CorePoint>

export const series: z.ZodType<{ readonly points: readonly SeriesPoint[] }> = z.object({
  points: z.array(
    z.object({
      at: time,
      depth: z.object({ ...depth, oldestAgeS: z.number() }).nullable(),
      enqueued: z.number(),
      claimed: z.number(),
      succeeded: z.number(),
      failed: z.number(),
      retried: z.number(),
      dead: z.number(),
      cancelled: z.number(),
      rescued: z.number(),
      waitMsTotal: z.number(),
      runMsTotal: z.number(),
    }),
  ),
})

export const groupsQuery: Query<'queue', 'limit'> = z.strictObject({
  queue: name.optional(),
  limit: wholeText.optional(),
})

/** Dead jobs that died of the same error. */
export interface DeadGroup extends Wire<Omit<CoreGroup, 'isExact'>> {
  readonly exact: boolean
}

export const groups: z.ZodType<{ readonly groups: readonly DeadGroup[] }> = z.object({
  groups: z.array(
    z
      .object({
        fingerprint: z.string(),
        error: z.object({ name: z.string(), message: z.string() }).nullable(),
        count: whole,
        exact: z.boolean(),
        types: z.array(z.string()),
        queues: z.array(z.string()),
        firstAt: time,
        lastAt: time,
        newestId: id,
      })
      .meta({ id: 'DeadGroup' }),
  ),
})
