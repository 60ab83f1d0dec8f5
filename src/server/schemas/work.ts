// Requests and answers of workers over HTTP.

import { z } from 'zod'
import { duration, id, name, time, whole } from './basics.js'

const lease: z.ZodType<string> = z.string().min(1).max(8_000).meta({
  id: 'Lease',
  description: 'As the claim gave it. It is of no use without an API key for the queue of its job',
})
const leases: z.ZodType<readonly string[]> = z.array(lease).min(1).max(1_000)
const workerName: z.ZodType<string> = name.meta({ description: 'One for each process', example: 'mailer-1' })

export interface ClaimBody {
  readonly worker: string
  readonly queues: readonly string[]
  readonly types?: readonly string[] | undefined
  readonly limit?: number | undefined
  readonly lease?: number | string | undefined
  readonly wait?: number | string | undefined
  readonly concurrency?: number | undefined
  readonly running?: number | undefined
  readonly host?: string | undefined
}
export const claimBody: z.ZodType<ClaimBody> = z
  .strictObject({
    worker: workerName,
    queues: z.array(name).min(1).max(20),
    types: z.array(name).min(1).max(1_000).optional(),
    limit: z.int().min(1).max(100).optional(),
    lease: duration.optional(),
    wait: duration.optional(),
    concurrency: z.int().min(1).max(10_000).optional(),
    running: z.int().min(0).max(10_000).optional(),
    host: z.string().min(1).max(100).optional(),
  })
  .meta({ id: 'ClaimWork' })

/** A job that was claimed. */
interface WorkJob {
  readonly lease: string
  readonly id: string
  readonly fence: number
  readonly type: string
  readonly queue: string
  readonly payload: unknown
  readonly version: number
  readonly priority: number
  readonly attempt: number
  readonly maxAttempts: number
  readonly timeoutMs: number | null
  readonly createdAt: string
  readonly tags: readonly string[]
  readonly group: string | null
  readonly traceparent: string | null
}
const workJob: z.ZodType<WorkJob> = z
  .object({
    lease,
    id,
    fence: whole,
    type: z.string(),
    queue: z.string(),
    payload: z.unknown(),
    version: whole,
    priority: whole,
    attempt: whole,
    maxAttempts: whole,
    timeoutMs: z.number().nullable(),
    createdAt: time,
    tags: z.array(z.string()),
    group: z.string().nullable(),
    traceparent: z.string().nullable(),
  })
  .meta({ id: 'WorkJob' })

export interface Claimed {
  readonly jobs: readonly WorkJob[]
  readonly leaseMs: number
}
export const claimed: z.ZodType<Claimed> = z.object({ jobs: z.array(workJob), leaseMs: z.number() })

export interface ExtendBody {
  readonly leases: readonly string[]
  readonly lease?: number | string | undefined
}
export const extendBody: z.ZodType<ExtendBody> = z.strictObject({ leases, lease: duration.optional() })

export interface Extended {
  readonly leases: readonly { readonly id: string; readonly state: 'held' | 'lost' | 'cancelled' | 'timed_out' }[]
}
export const extended: z.ZodType<Extended> = z.object({
  leases: z.array(z.object({ id, state: z.enum(['held', 'lost', 'cancelled', 'timed_out']) })),
})

export interface WorkError {
  readonly name?: string | undefined
  readonly message: string
  readonly code?: string | undefined
  readonly stack?: string | undefined
}
const workError: z.ZodType<WorkError> = z.strictObject({
  name: z.string().max(1_000).optional(),
  message: z.string().max(100_000),
  code: z.string().max(1_000).optional(),
  stack: z.string().max(100_000).optional(),
})
type Span = number | string

/** How an attempt ended. */
export type WorkEnd = { readonly lease: string } & (
  | { readonly outcome: 'succeeded'; readonly result?: unknown }
  | {
      readonly outcome: 'failed'
      readonly error: WorkError
      readonly retryable?: boolean | undefined
      readonly delay?: Span | undefined
    }
  | { readonly outcome: 'dropped' | 'invalid'; readonly error: WorkError }
  | { readonly outcome: 'released'; readonly delay?: Span | undefined }
  | { readonly outcome: 'snoozed'; readonly delay: Span }
  | {
      readonly outcome: 'rate_limited'
      readonly delay: Span
      readonly scope?: 'queue' | 'group' | 'job' | { readonly limit: string } | undefined
    }
  | { readonly outcome: 'cancelled' }
)

const scope: z.ZodType<'queue' | 'group' | 'job' | { readonly limit: string }> = z.union([
  z.enum(['queue', 'group', 'job']),
  z.strictObject({ limit: name }),
])
const end: z.ZodType<WorkEnd> = z
  .discriminatedUnion('outcome', [
    z.strictObject({ lease, outcome: z.literal('succeeded'), result: z.unknown().optional() }),
    z.strictObject({
      ...{ lease, outcome: z.literal('failed'), error: workError },
      ...{ retryable: z.boolean().optional(), delay: duration.optional() },
    }),
    z.strictObject({ lease, outcome: z.enum(['dropped', 'invalid']), error: workError }),
    z.strictObject({ lease, outcome: z.literal('released'), delay: duration.optional() }),
    z.strictObject({ lease, outcome: z.literal('snoozed'), delay: duration }),
    z.strictObject({ lease, outcome: z.literal('rate_limited'), delay: duration, scope: scope.optional() }),
    z.strictObject({ lease, outcome: z.literal('cancelled') }),
  ])
  .meta({ id: 'WorkEnd' })

export interface SettleBody {
  readonly jobs: readonly WorkEnd[]
}
export const settleBody: z.ZodType<SettleBody> = z.strictObject({ jobs: z.array(end).min(1).max(1_000) })

export interface Settled {
  readonly jobs: readonly {
    readonly id: string
    readonly result: 'settled' | 'lost' | 'locked'
    readonly state: string | null
  }[]
}
export const settled: z.ZodType<Settled> = z.object({
  jobs: z.array(z.object({ id, result: z.enum(['settled', 'lost', 'locked']), state: z.string().nullable() })),
})

export interface ReleaseBody {
  readonly leases: readonly string[]
}
export const releaseBody: z.ZodType<ReleaseBody> = z.strictObject({ leases })

export interface ProgressBody {
  readonly lease: string
  readonly progress: unknown
}
export const progressBody: z.ZodType<ProgressBody> = z.strictObject({ lease, progress: z.unknown() })

export interface LogBody {
  readonly lease: string
  readonly lines: readonly string[]
}
export const logBody: z.ZodType<LogBody> = z.strictObject({
  lease,
  lines: z.array(z.string().max(100_000)).min(1).max(100),
})

export interface LeaveBody {
  readonly worker: string
}
export const leaveBody: z.ZodType<LeaveBody> = z.strictObject({ worker: workerName })
