// A job's definition and its handler: the two things users write.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from './duration.js'
import type { Queryable } from './job-store.js'
import type { JobLimits } from './limits.js'

/** Why a handler's signal fired: the `reason` of the signal is a HoldfastError with the matching code. */
export type AbortCause = 'cancelled' | 'timed_out' | 'lease_lost' | 'shutdown'

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
   * Settles the job as succeeded inside the caller's own transaction: effect and settlement commit together, or neither
   * does. Raises `lease_lost` when the job no longer belongs to this run: let the transaction roll back.
   */
  complete(tx: Queryable, result?: unknown): Promise<void>
}

/** The code that runs a job. What it returns is the result, kept for the retention time. */
export type HandlerFunction<Payload> = (payload: Payload, ctx: JobContext) => unknown

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
  /** Binds the code that runs this job, for `worker({ handlers })`. */
  handle(run: HandlerFunction<Output>): Handler
}

/** A definition with its code. */
export interface Handler {
  readonly definition: JobDefinition<never, never> | JobDefinition
  readonly run: HandlerFunction<never>
}

/**
 * Thrown by a handler: the job goes to the dead-letter queue at once, whatever attempts it has left.
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
