// Queues, series and groups of dead jobs.

import { z } from 'zod'
import {
  duration,
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

const depth = {
  blocked: whole,
  scheduled: whole,
  ready: whole,
  running: whole,
  retrying: whole,
  dead: whole,
}

const settings = z.object({ limits, retentionMs: z.number().optional() }).meta({ id: 'QueueSettings' })

export const queueView: z.ZodType = z.object({ name: z.string(), paused: z.boolean(), settings })

export const queueOverview: z.ZodType = z
  .object({
    name: z.string(),
    paused: z.boolean(),
    settings,
    ...depth,
    oldestAgeS: z.number(),
    workers: whole,
    slots: whole,
    rates: z
      .object({ enqueued: z.number(), succeeded: z.number(), failed: z.number(), dead: z.number() })
      .meta({ description: 'Per second, over the last minute' }),
  })
  .meta({ id: 'QueueOverview' })

export const overview: z.ZodType = z
  .object({ queues: z.array(queueOverview), total: whole, exact: z.boolean(), now: time })
  .meta({ id: 'Overview' })

export const queueOptions: z.ZodType = z.strictObject({ ...limitShape, retention: duration.optional() })

export const paused: z.ZodType = z.object({ name: z.string(), paused: z.boolean() })

export const stats: z.ZodType = z.object({
  queue: z.string().nullable(),
  ...depth,
  oldest_age_s: z.number(),
  attempts_p99: z.number(),
  exact: z.boolean(),
})

export const queuesQuery: z.ZodObject<{ offset: MaybeWhole }> = z.strictObject({ offset: wholeText.optional() })

export const queueQuery: z.ZodObject<{ queue: MaybeName }> = z.strictObject({ queue: name.optional() })

const durationText = z.string().max(40)
export const seriesQuery: z.ZodObject<{ queue: MaybeName; since: MaybeName; step: MaybeName }> = z.strictObject({
  queue: name.optional(),
  since: durationText.optional(),
  step: durationText.optional(),
})

export const series: z.ZodType = z.object({
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

export const groupsQuery: z.ZodObject<{ queue: MaybeName; limit: MaybeWhole }> = z.strictObject({
  queue: name.optional(),
  limit: wholeText.optional(),
})

export const groups: z.ZodType = z.object({
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
