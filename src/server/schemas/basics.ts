// The small parts that requests and answers are made of. A schema says which fields there are. The library checks sizes and
// ranges, so each rule and its message exist once.
//
// Each schema of this folder is annotated with the type of what it describes. The compiler holds the schema, the route that
// answers with it, and the dashboard that reads it to this one type.

import { z } from 'zod'
import type { JobLimits } from '../../core/limits.js'
import { DEAD_REASONS, type DeadReason, JOB_STATES, type JobState } from '../../core/states.js'

/** A value after it went through JSON: dates are ISO strings. */
export type Wire<T> = unknown extends T
  ? T
  : T extends Date
    ? string
    : T extends readonly (infer Entry)[]
      ? readonly Wire<Entry>[]
      : T extends object
        ? { readonly [Key in keyof T]: Wire<T[Key]> | (Record<never, never> extends Pick<T, Key> ? undefined : never) }
        : T

type Text = z.ZodString
type Whole = z.ZodInt

export const time: Text = z.string().meta({ format: 'date-time', description: 'An ISO date in UTC' })
export const id: Text = z
  .string()
  .max(100)
  .meta({ description: 'A UUID in lower case', example: '0199c3a1-7f00-7000-8000-000000000001' })
export const name: Text = z.string().max(200)
export const whole: Whole = z.int()
export const state: z.ZodType<JobState> = z.enum(JOB_STATES).meta({ id: 'JobState' })
export const reason: z.ZodType<DeadReason> = z
  .enum(DEAD_REASONS)
  .meta({ id: 'DeadReason', description: 'Why a job is dead' })

/** A duration as requests write it. */
export const duration: z.ZodType<number | string> = z
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

/** The limits of a job as requests write them, in the library's option names. */
interface LimitBody {
  readonly maxAttempts?: number | undefined
  readonly retry?: unknown
  readonly timeout?: number | string | null | undefined
  readonly maxAge?: number | string | null | undefined
}

export const limitShape: { [Name in keyof Required<LimitBody>]: z.ZodOptional<z.ZodType<LimitBody[Name]>> } = {
  maxAttempts: whole.optional(),
  retry: retry.optional(),
  timeout: duration.nullable().optional(),
  maxAge: duration.nullable().optional(),
}

/** The limits of a job as the store keeps them. */
export const limits: z.ZodType<Wire<JobLimits>> = z
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
    startByMs: z.number().optional(),
  })
  .meta({ id: 'JobLimits' })

/** A query: texts and whole numbers, all of which may be left out. */
export type Query<Texts extends string, Wholes extends string = never> = z.ZodObject<
  { [Name in Texts]: z.ZodOptional<z.ZodType<string>> } & { [Name in Wholes]: z.ZodOptional<z.ZodType<number>> }
>

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
