// A job's definition and its handler: the two things users write.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Duration } from './duration.js'
import type { LimitSettings } from './flow/settings.js'
import type { Queryable } from './job-store.js'
import type { StoredError } from './json.js'
import type { JobLimits } from './limits.js'
import type { DeadReason } from './states.js'

/** Why a handler's signal fired: the `reason` of the signal is a HoldfastError with the matching code. */
export type AbortCause = 'cancelled' | 'timed_out' | 'lease_lost' | 'shutdown'

/** What waits together with a job that was told to wait. `job` is this one alone. */
export type RateLimitScope = { readonly limit: string } | 'queue' | 'group' | 'job'

/** What `complete` gives: a handler with a typed result that settled its job itself returns this in the result's place. */
export type Completed = undefined & { readonly [completed]: true }
declare const completed: unique symbol

/** What a handler is given beside its payload. */
export interface JobContext<Returned = unknown> {
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
  /** The schedule and the tick that made it, or null. */
  readonly schedule: { readonly name: string; readonly tick: Date } | null
  /** Ids of the jobs it came after, in the order of `after`. */
  readonly parents: readonly string[]
  /** Id of the job whose handler enqueued it, or null. */
  readonly enqueuedBy: string | null
  /** Fires on cancel, timeout, lost lease and shutdown; its reason is a HoldfastError with the code `job_cancelled`,
   *  `timed_out`, `lease_lost` or `aborted`. */
  readonly signal: AbortSignal
  /** Keeps how far the job has come, any JSON value; shown by `get`. Written at most about once a second. */
  progress(value: unknown): void
  /** The progress that an earlier attempt kept last, or null. Ask before this attempt keeps its own. */
  lastProgress<Value = unknown>(): Promise<Value | null>
  /**
   * The results of the jobs it came after, in the order of `after`; null for one that did not succeed, has no result, or was pruned. With a
   * definition, or with an array of one for each, they have its type and are read by its output schema.
   */
  parentResults(): Promise<readonly unknown[]>
  parentResults<Result>(job: JobDefinition<unknown, unknown, Result, unknown>): Promise<readonly (Result | null)[]>
  parentResults<const Jobs extends readonly JobDefinition[]>(jobs: Jobs): Promise<ResultsOf<Jobs>>
  /** How the jobs ended that it came after, in the order of `after`; null for one that was pruned. For jobs with `onParentDead: 'run'`. */
  parentEnds(): Promise<readonly (ChildEnd | null)[]>
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
  /**
   * Runs `run` once for the whole job: its result is kept, and an attempt that comes later gets it and does not run it again. `name` is unique
   * within the job. The result is what JSON makes of it. Raises `unstorable` when it cannot be stored, `kept_full`, `lease_lost`.
   */
  step<Value>(name: string, run: () => Value | Promise<Value>): Promise<Value>
  /**
   * An effect elsewhere that must not happen twice. That it begins is kept before `run`, and its result after. `run` gets a key of its own for
   * providers that take idempotency keys; when an attempt was cut off in between, the next one calls `run` again with the same key. Such
   * effects are listed by `holdfast.doubtful()`. Raises as `step` does.
   */
  once<Value>(key: string, run: (idempotencyKey: string, call: EffectCall) => Value | Promise<Value>): Promise<Value>
  /**
   * Waits for `holdfast.signal(id, name, value)`, at most for `timeout` (default '7d'). A job whose signal has not come leaves its slot: the attempt
   * ends without being counted, and the handler is called again from the top when the signal has come or the time is over, so what comes before
   * must be in steps. A signal that came earlier is kept. The second call with one name waits for the second signal. Throws to leave the handler.
   */
  waitFor<Value = unknown>(name: string, options?: WaitForOptions): Promise<Signalled<Value>>
  /**
   * Keeps a piece of output with the job, which `holdfast.read(id)` gives to any number of readers while the job runs and afterwards. Resolves when it
   * is kept; a handler that does not await it goes on, and the job ends after its output has arrived. At most 64 KiB at a time and 8 MiB for the whole
   * job. Output of an earlier attempt stays. Raises `kept_full`, `lease_lost`.
   */
  write(chunk: string): Promise<void>
  /**
   * Waits until the children have ended that the handler enqueued with `ctx.enqueue(job, payload, { child: name })`, and gives how each did, by name. The
   * job leaves its slot meanwhile, as with `waitFor`, and its handler is called again from the top: a child is enqueued once however often it is.
   * With one that is dead or cancelled it raises `child_failed`, unless `onFailure` says otherwise. Throws to leave the handler.
   */
  waitForChildren(options?: WaitForChildrenOptions): Promise<Readonly<Record<string, ChildEnd>>>
  /** What this attempt really cost. When it ends, rates that count cost get back, or lose, the difference to the job's `cost`. */
  spent(cost: number): void
  /**
   * Settles the job as succeeded inside the caller's own transaction: effect and settlement commit together, or neither
   * does. Raises `lease_lost` when the job no longer belongs to this run: let the transaction roll back. A handler whose
   * result has a type returns what this gives.
   */
  complete(tx: Queryable, result?: Returned): Promise<Completed>
}

/** How long `waitFor` waits. */
export interface WaitForOptions {
  /** From '1ms' to '366d', counted from the first time that the job waits for this. Default '7d'. */
  readonly timeout?: Duration
}

/** How a wait ended. */
export type Signalled<Value> =
  | { readonly timedOut: false; readonly value: Value; readonly at: Date }
  | { readonly timedOut: true; readonly value: undefined; readonly at: null }

/** What becomes of a wait for children when one of them is dead or cancelled. */
export interface WaitForChildrenOptions {
  /** `throw` (the default) raises `child_failed` when all have ended; `cancel` raises it as soon as one has failed, and cancels the others;
   *  `collect` raises nothing. */
  readonly onFailure?: 'throw' | 'cancel' | 'collect'
}

/** How a child, or a job before it, ended. */
export interface ChildEnd {
  readonly id: string
  readonly state: 'succeeded' | 'dead' | 'cancelled'
  /** What its handler returned, or null. */
  readonly result: unknown
  readonly error: StoredError | null
}

/** What `once` says about a call of its function. */
export interface EffectCall {
  /** How often the effect was begun by now: 1 for the first time. */
  readonly begun: number
  /** True when it was begun before and nobody knows how that ended. */
  readonly isDoubtful: boolean
}

/** The result of each definition, or null. */
export type ResultsOf<Jobs extends readonly JobDefinition[]> = {
  readonly [Index in keyof Jobs]: Jobs[Index] extends JobDefinition<infer _P, infer _Q, infer Result, infer _R>
    ? Result | null
    : never
}

/** The code that runs a job. What it returns is the result, kept for the retention time. */
export type HandlerFunction<Payload, Returned = unknown> = (
  payload: Payload,
  ctx: JobContext<Returned>,
) => Answer<Returned>

// With `any` a definition of every result is also a JobDefinition of an unknown one; with `unknown` it would be none.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Answer<Returned> = unknown extends Returned ? any : Returned | Completed | Promise<Returned | Completed>

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

/**
 * What a definition holds, checked and complete. Four types travel with it: `Payload` is what producers give, `Parsed` what the
 * handler gets of it, `Result` what those who wait get, `Returned` what the handler returns for that. Without schemas the first
 * two are the same, and so are the last two.
 */
export interface JobDefinition<Payload = unknown, Parsed = unknown, Result = unknown, Returned = Result> {
  readonly type: string
  readonly queue: string
  readonly priority: number
  /** Newest first. */
  readonly lifo?: true
  readonly limits: JobLimits
  readonly tags: readonly string[]
  readonly schema: StandardSchemaV1<Payload, Parsed> | null
  /** Checks what its handler returns, and reads it for those who wait; null takes everything. */
  readonly output: StandardSchemaV1<Returned, Result> | null
  /** Version of the payload's shape. */
  readonly version: number
  /** For each older version, the function that lifts a payload of that version by one. */
  readonly upgrades: ReadonlyMap<number, (payload: unknown) => unknown>
  /** Says whether an error is worth another attempt; null takes every error for one. */
  readonly retryable: ((error: unknown) => boolean) | null
  /** Called after an attempt that failed and will be retried, and after one that left the job dead; null when nobody asked. */
  readonly onRetry: ((failure: JobFailure) => unknown) | null
  readonly onDead: ((failure: JobFailure) => unknown) | null
  /** Where its handler runs: in a child process, in a thread, or, with null, where its worker says. */
  readonly isolate: Isolate | null
  /** Null when it says nothing about flow control. */
  readonly flow: DefinitionFlow | null
  /** Binds the code that runs this job, for `worker({ handlers })`. */
  handle(run: HandlerFunction<Parsed, Returned>): Handler
  /** Binds code that runs several of its jobs together. Each has a slot of the worker, its own lease and its own settlement. */
  handleBatch(options: BatchOptions, run: BatchFunction<Parsed>): Handler
}

/** A failed attempt, for `onRetry` and `onDead`. */
export interface JobFailure {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly attempt: number
  readonly maxAttempts: number
  /** What the handler threw; null for a job that died without running, as one that was too old. */
  readonly error: Error | null
  /** Why the job is dead; null of a retry. */
  readonly reason: DeadReason | null
  /** How long until it runs again; null of a dead job. */
  readonly retryInMs: number | null
  /** As it is stored. */
  readonly payload: unknown
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
  readonly definition: JobDefinition<never, never, never, never> | JobDefinition
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
