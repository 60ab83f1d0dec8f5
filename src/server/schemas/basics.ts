// The small parts that requests and answers are made of. Schemas say what something looks like; how large or how long it
// may be is checked by the library, so that one message is right everywhere.

import { z } from 'zod'
import { DEAD_REASONS, JOB_STATES } from '../../core/states.js'

type Text = z.ZodString
type Whole = z.ZodInt

export const time: Text = z.string().meta({ format: 'date-time', description: 'An ISO date in UTC' })
export const id: Text = z
  .string()
  .max(100)
  .meta({ description: 'A UUID in lower case', example: '0199c3a1-7f00-7000-8000-000000000001' })
export const name: Text = z.string().max(200)
export const whole: Whole = z.int()
export const state: z.ZodEnum<{ [State in (typeof JOB_STATES)[number]]: State }> = z
  .enum(JOB_STATES)
  .meta({ id: 'JobState' })
export const reason: z.ZodEnum<{ [Reason in (typeof DEAD_REASONS)[number]]: Reason }> = z
  .enum(DEAD_REASONS)
  .meta({ id: 'DeadReason', description: 'Why a job is dead' })

/** A length of time as requests write it. */
export const duration: z.ZodType = z
  .union([z.number(), z.string().max(40)])
  .meta({ id: 'Duration', description: "Such as '30s', '5m', '2h', '7d', or milliseconds", example: '30s' })

export const filterText: z.ZodType<string> = z
  .string()
  .max(4_000)
  .meta({ description: 'In the filter language', example: 'state:dead queue:mail error:"timeout"' })

/** A filter as text, or structured. */
export const filter: z.ZodType = z
  .union([filterText, z.record(z.string(), z.unknown())])
  .meta({ id: 'Filter', description: 'In the filter language, or its structured form' })

const retry: z.ZodType = z
  .strictObject({
    backoff: z.union([z.enum(['exponential', 'linear', 'fixed']), z.array(duration).max(100)]).optional(),
    base: duration.optional(),
    cap: duration.optional(),
    jitter: z.boolean().optional(),
  })
  .meta({ id: 'RetryOptions', description: 'How failed attempts are spaced' })

/** The bounds of a job, in the library's option names. */
interface LimitShape {
  readonly maxAttempts: z.ZodOptional<Whole>
  readonly retry: z.ZodOptional<z.ZodType>
  readonly timeout: z.ZodOptional<z.ZodNullable<z.ZodType>>
  readonly maxAge: z.ZodOptional<z.ZodNullable<z.ZodType>>
}

export const limitShape: LimitShape = {
  maxAttempts: whole.optional(),
  retry: retry.optional(),
  timeout: duration.nullable().optional(),
  maxAge: duration.nullable().optional(),
}

/** A bound as the store keeps it. */
export const limits: z.ZodType = z
  .object({
    maxAttempts: whole.optional(),
    retry: z
      .object({
        backoff: z.union([z.enum(['exponential', 'linear', 'fixed']), z.array(z.number())]),
        baseMs: z.number(),
        capMs: z.number(),
        jitter: z.boolean(),
      })
      .optional(),
    timeoutMs: z.number().nullable().optional(),
    maxAgeMs: z.number().nullable().optional(),
  })
  .meta({ id: 'JobLimits' })

/** Parts of a query that may be left out. */
export type MaybeName = z.ZodOptional<Text>
export type MaybeText = z.ZodOptional<z.ZodType<string>>
export type MaybeWhole = z.ZodOptional<z.ZodType<number>>

export const idParams: z.ZodObject<{ id: Text }> = z.strictObject({ id })
export const nameParams: z.ZodObject<{ name: Text }> = z.strictObject({ name })

/** A whole number in a query, where everything is text. */
export const wholeText: z.ZodType<number> = z.codec(z.string().regex(/^\d{1,15}$/), whole, {
  decode: Number,
  encode: String,
})

export const problem: z.ZodType = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: whole,
    code: z.string(),
    detail: z.string(),
    instance: z.string(),
    requestId: z.string(),
  })
  .meta({ id: 'Problem', description: 'Why a request was not served (RFC 9457)' })
