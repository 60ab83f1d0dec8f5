// A job's definition and its handler: the two things users write.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from './duration.js'
import type { LimitSettings } from './flow/settings.js'
import type { Queryable } from './job-store.js'
import type { JobLimits } from './limits.js'

/** Why a handler's signal fired: the `reason` of the signal is a HoldfastError with the matching code. */
export type AbortCause = 'cancelled' | 'timed_out' | 'lease_lost' | 'shutdown'

/** What waits together with a job that was told to wait. `job` is this one alone. */
export type RateLimitScope = { readonly limit: string } | 'queue' | 'group' | 'job'

/** What a handler is given beside its payload. */
export interface JobContext {
  readonly id: string
  readonly type: string
  readonly queue: string
  /** 1 for the first. */
  readonly attempt: number
  readonly maxAttempts: number
  /** The number of this claim. Grows with every claim of the job: hand it to systems that can refuse an older one. */
  readonly fence: number
  readonly createdAt: Date
  readonly tags: readonly string[]
  /** The group it belongs to, or null. */
  readonly group: string | null
  /** Fires on cancel, timeout, lost lease and shutdown; its reason is a HoldfastError with the code `job_cancelled`,
   *  `timed_out`, `lease_lost` or `aborted`. */
  readonly signal: AbortSignal
  /** Keeps how far the job has come, any JSON value; shown by `get`. Written at most about once a second. */
  progress(value: unknown): void
  /** Keeps a line with the job; at most 1,000 lines of 4 KiB each for one attempt, later ones are dropped. */
  log(text: string): void
  /** Ends this attempt and runs the job again after `delay`, without using up an attempt. Throws: call it last. */
  snooze(delay: Duration): never
  /**
   * Ends this attempt without using it up, because what it called is busy, and lets nothing of the scope start before `after` is over. The
   * scope is one of the job's limits, its group or its queue; by default the one limit it names, else its group, else this
   * job alone. Throws: call it last.
   */
  rateLimited(after: Duration, scope?: RateLimitScope): never
  /** What this attempt really cost. When it ends, rates that count cost get back, or lose, the difference to the job's `cost`. */
  spent(cost: number): void
  /**
   * Settles the job as succeeded inside the caller's own transaction: effect and settlement commit together, or neither
   * does. Raises `lease_lost` when the job no longer belongs to this run: let the transaction roll back.
   */
  complete(tx: Queryable, result?: unknown): Promise<void>
}

/** The code that runs a job. What it returns is the result, kept for the retention time. */
export type HandlerFunction<Payload> = (payload: Payload, ctx: JobContext) => unknown

/** What keeps a handler apart from the worker and from other handlers. */
export type Isolate = 'process' | 'thread'

/** What a definition says about flow control. */
export interface DefinitionFlow {
  /** The group of its jobs, or how it is found in the payload. */
  readonly group: string | ((payload: unknown) => string | null) | null
  readonly limits: readonly string[]
  readonly cost: number | ((payload: unknown) => number)
  /** The limit of its type, which its jobs count in; null when it asks for none. */
  readonly own: { readonly name: string; readonly settings: LimitSettings } | null
}

/** What a definition holds, checked and complete. Its producer's and its handler's type travel with it. */
export interface JobDefinition<Input = unknown, Output = unknown> {
  readonly type: string
  readonly queue: string
  readonly priority: number
  readonly limits: JobLimits
  readonly tags: readonly string[]
  readonly schema: StandardSchemaV1<Input, Output> | null
  /** Version of the payload's shape. */
  readonly version: number
  /** For each older version, the function that lifts a payload of that version by one. */
  readonly upgrades: ReadonlyMap<number, (payload: unknown) => unknown>
  /** Says whether an error is worth another attempt; null takes every error for one. */
  readonly retryable: ((error: unknown) => boolean) | null
  /** Where its handler runs: in a child process, in a thread, or, with null, where its worker says. */
  readonly isolate: Isolate | null
  /** Null when it says nothing about flow control. */
  readonly flow: DefinitionFlow | null
  /** Binds the code that runs this job, for `worker({ handlers })`. */
  handle(run: HandlerFunction<Output>): Handler
  /** Binds code that runs several of its jobs together. Each has a slot of the worker, its own lease and its own settlement. */
  handleBatch(options: BatchOptions, run: BatchFunction<Output>): Handler
}

/** How jobs are gathered for a batch handler. */
export interface BatchOptions {
  /** The most jobs of one call, from 1 to 1,000. The worker's concurrency must leave room for them. */
  readonly max: number
  /** How long the first of them waits for others. Default '20ms', at most '10s'. */
  readonly linger?: Duration
  /** Whether all jobs of a call are of one group. Default false. Where groups run one job at a time, a batch is one turn of its group. */
  readonly sameGroup?: boolean
}

/** One job of a batch. */
export interface BatchJob<Payload> {
  readonly payload: Payload
  readonly ctx: JobContext
}

/** The code that runs several jobs together. It answers with an array in their order: a result for each, or an Error, DropJob or RetryJob.
 *  When it throws, all of them fail. */
export type BatchFunction<Payload> = (jobs: readonly BatchJob<Payload>[]) => unknown

/** A definition with its code. */
export interface Handler {
  readonly definition: JobDefinition<never, never> | JobDefinition
  readonly run: HandlerFunction<never>
  /** Of a handler that runs several jobs together. */
  readonly batch?: {
    readonly max: number
    readonly lingerMs: number
    readonly sameGroup: boolean
    readonly run: BatchFunction<never>
  }
}

/**
 * Thrown by a handler: the job goes to the dead-letter queue immediately, whatever attempts it has left.
 *
 * @example throw new DropJob('the account was closed')
 */
export class DropJob extends Error {
  override readonly name = 'DropJob'
}

/**
 * Thrown by a handler: the attempt failed and the job chooses itself when it runs again.
 *
 * @example throw new RetryJob('rate limited', { delay: '90s' })
 */
export class RetryJob extends Error {
  override readonly name = 'RetryJob'
  readonly delay: Duration | null

  constructor(message: string, options: { readonly delay?: Duration; readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.delay = options.delay ?? null
  }
}
