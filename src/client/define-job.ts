// Defining a job: its type, the shape of its payload and the settings its jobs start with. ◄── the caller's module · next: client.ts

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { checkBoolean, checkChoice, checkKeys, checkName, checkTags, checkWhole } from '../core/check.js'
import type {
  BatchFunction,
  BatchOptions,
  Handler,
  HandlerFunction,
  Isolate,
  JobDefinition,
  JobFailure,
} from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError, show } from '../core/errors.js'
import { ATTEMPTS_MAX, type JobLimits } from '../core/limits.js'
import { checkResult } from '../core/result.js'
import { type RetryOptions, resolveRetry } from '../core/retry.js'
import { DEFINITION_FLOW_OPTIONS, type DefinitionFlowOptions, resolveDefinitionFlow } from './flow-options.js'

/** The queue of jobs whose definition and enqueue name none. */
export const DEFAULT_QUEUE = 'default'
const PRIORITY_MIN = -32_768
const PRIORITY_MAX = 32_767
const VERSION_MAX = 1_000

/** What bounds a job. What is left out is inherited: the enqueue's bounds win over the definition's, those over the
 *  queue's, those over the defaults. */
export interface LimitOptions {
  /** How often the job is tried before it is dead, from 1 to 10,000. Default 25. */
  readonly maxAttempts?: number
  /** How failed attempts are spaced. Default exponential from 1 s to 1 h with full jitter. */
  readonly retry?: RetryOptions
  /** How long one attempt may run; null lets it run for ever. Default '1h'. Shorter frees a stuck slot sooner and cuts
   *  slow work off. */
  readonly timeout?: Duration | null
  /** How old the job may be before it is dead instead of run; null for no bound, which is the default. */
  readonly maxAge?: Duration | null
}

/** The names of these options, for those that take them together with their own. */
export const LIMIT_OPTIONS = ['maxAttempts', 'retry', 'timeout', 'maxAge'] as const

/** What jobs of one definition have in common. */
export interface JobOptions<Payload = never> extends LimitOptions, DefinitionFlowOptions<Payload> {
  /** The queue its jobs go to. Default 'default'. */
  readonly queue?: string
  /** Higher runs first, from −32,768 to 32,767. Default 0. */
  readonly priority?: number
  /** Newest first: each of its jobs runs before those of its queue and priority that were enqueued before it. Not with a group. Default
   *  false. */
  readonly lifo?: boolean
  /** Put on each of its jobs, for finding them; at most 16. */
  readonly tags?: readonly string[]
  /** Version of the payload's shape, kept with each job. Default 1. Raise it when the shape changes, and say in `upgrade`
   *  how older payloads are read. */
  readonly version?: number
  /** For each older version, the function that lifts a payload from it to the next one. */
  readonly upgrade?: Readonly<Record<number, (payload: never) => unknown>>
  /** Says whether an error is worth another attempt. Default: every one is. */
  readonly retryable?: (error: unknown) => boolean
  /** Called in the worker's process after an attempt that failed and will be retried. It changes nothing; what it throws is reported as
   *  the event `hook.failed`. Not called when the worker was lost with the job. */
  readonly onRetry?: (failure: JobFailure) => unknown
  /** The same after an attempt that left the job dead. */
  readonly onDead?: (failure: JobFailure) => unknown
  /** Runs its handler apart from the worker: in a child process, or in a thread, which costs less and shares the process. The worker must be
   *  given the `module` its handlers are in. Default: where the worker runs the others. */
  readonly isolate?: Isolate
}

/** The options of a definition whose payload is checked. */
export interface CheckedJobOptions<Schema extends StandardSchemaV1>
  extends JobOptions<StandardSchemaV1.InferInput<Schema>> {
  /** Any Standard Schema: zod, valibot, arktype, … Checked when a job is enqueued and again before it runs; its input is
   *  what is stored, its output is what the handler gets. */
  readonly input: Schema
}

/** The options of a definition whose result is checked. */
export interface OutputOptions<Output extends StandardSchemaV1> {
  /** Any Standard Schema. What the handler returns is checked against it, as it would be stored, and an attempt whose result does not
   *  fit fails with `invalid_result`. Its input is what the handler returns and what is stored, its output is what `wait()` gives. */
  readonly output: Output
}

const KNOWN = [
  ...['input', 'output', 'queue', 'priority', 'lifo', ...LIMIT_OPTIONS, ...DEFINITION_FLOW_OPTIONS],
  ...['tags', 'version', 'upgrade', 'retryable', 'isolate', 'onRetry', 'onDead'],
]

/**
 * Defines a job. Raises `invalid_name` or `invalid_option` for a definition that cannot work.
 *
 * @example
 * const sendEmail = defineJob('send_email', { input: z.object({ to: z.email() }), queue: 'email', maxAttempts: 10 })
 * const resize = defineJob<{ image: string }, { width: number }>('resize')
 */
export function defineJob<Schema extends StandardSchemaV1, Output extends StandardSchemaV1>(
  type: string,
  options: CheckedJobOptions<Schema> & OutputOptions<Output>,
): JobDefinition<
  StandardSchemaV1.InferInput<Schema>,
  StandardSchemaV1.InferOutput<Schema>,
  StandardSchemaV1.InferOutput<Output>,
  StandardSchemaV1.InferInput<Output>
>
export function defineJob<Schema extends StandardSchemaV1>(
  type: string,
  options: CheckedJobOptions<Schema> & { readonly output?: undefined },
): JobDefinition<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>>
export function defineJob<Payload = unknown, Result = unknown, Returned = Result>(
  type: string,
  options?: JobOptions<Payload> & { readonly output?: StandardSchemaV1<Returned, Result> },
): JobDefinition<Payload, Payload, Result, Returned>
export function defineJob(
  type: string,
  options: JobOptions & { readonly input?: StandardSchemaV1; readonly output?: StandardSchemaV1 | undefined } = {},
): JobDefinition {
  checkName('type', type)
  checkKeys(`the definition of "${type}"`, options, KNOWN)
  const {
    queue = DEFAULT_QUEUE,
    priority = 0,
    lifo = false,
    tags = [],
    version = 1,
    upgrade = {},
    retryable,
    isolate,
    input,
    output,
    onRetry,
    onDead,
  } = options
  const definition: JobDefinition = {
    type,
    queue: checkName('queue', queue),
    priority: checkPriority(priority),
    ...(checkBoolean('lifo', lifo) ? { lifo: true as const } : {}),
    limits: resolveLimitOptions(options),
    tags: checkTags(tags),
    schema: input === undefined ? null : checkSchema(`input of "${type}"`, input),
    output: output === undefined ? null : checkSchema(`output of "${type}"`, output),
    version: checkWhole('version', version, 1, VERSION_MAX),
    // After the version, which it counts up to.
    upgrades: checkUpgrades(type, version, upgrade),
    retryable: retryable === undefined ? null : checkFunction(`retryable of "${type}"`, retryable),
    onRetry: onRetry === undefined ? null : checkFunction(`onRetry of "${type}"`, onRetry),
    onDead: onDead === undefined ? null : checkFunction(`onDead of "${type}"`, onDead),
    isolate: isolate === undefined ? null : checkChoice('isolate', isolate, ['process', 'thread']),
    flow: resolveDefinitionFlow(type, options),
    handle: (run) => bind(definition, run),
    handleBatch: (batching, run) => bindBatch(definition, batching, run),
  }
  return Object.freeze(definition)
}

/** Checks the bounds among `options` and gives them in the form stores keep: absent ones stay absent. */
export function resolveLimitOptions(options: LimitOptions): JobLimits {
  const { maxAttempts, retry, timeout, maxAge } = options
  return {
    ...(maxAttempts === undefined ? {} : { maxAttempts: checkWhole('maxAttempts', maxAttempts, 1, ATTEMPTS_MAX) }),
    ...(retry === undefined ? {} : { retry: resolveRetry('retry', retry) }),
    ...(timeout === undefined ? {} : { timeoutMs: boundMs('timeout', timeout) }),
    ...(maxAge === undefined ? {} : { maxAgeMs: boundMs('maxAge', maxAge) }),
  }
}

function boundMs(name: string, value: Duration | null): number | null {
  return value === null ? null : durationMs(value, { name, minMs: 1 })
}

/** Raises `invalid_option` unless `value` can be a job's priority. */
export function checkPriority(value: unknown): number {
  return checkWhole('priority', value, PRIORITY_MIN, PRIORITY_MAX)
}

function checkSchema(what: string, schema: unknown): StandardSchemaV1 {
  // Some libraries make schemas that are functions.
  const isCarrier = (typeof schema === 'object' && schema !== null) || typeof schema === 'function'
  const standard = isCarrier ? (schema as Partial<StandardSchemaV1>)['~standard'] : undefined
  if (standard?.version === 1 && typeof standard.validate === 'function') return schema as StandardSchemaV1
  throw new HoldfastError(
    'invalid_option',
    `${what} must be a Standard Schema (zod, valibot, arktype, …), got ${show(schema)}`,
  )
}

function checkUpgrades(type: string, version: number, upgrade: unknown): JobDefinition['upgrades'] {
  const older = Array.from({ length: version - 1 }, (_, index) => String(index + 1))
  if (older.length === 0 && Object.keys(Object(upgrade)).length > 0) {
    throw new HoldfastError('invalid_option', `"${type}" is at version 1, which needs no upgrade: set version as well`)
  }
  checkKeys(`upgrade of "${type}"`, upgrade, older)
  const steps = new Map<number, (payload: unknown) => unknown>()
  for (const [from, step] of Object.entries(upgrade as Record<string, (payload: unknown) => unknown>)) {
    steps.set(Number(from), checkFunction(`upgrade from ${from} of "${type}"`, step))
  }
  checkWithoutGaps(type, version, steps)
  return steps
}

// A gap would make jobs of the versions below it dead one by one, long after the definition was written.
function checkWithoutGaps(type: string, version: number, steps: ReadonlyMap<number, unknown>): void {
  if (steps.size === 0) return
  for (let from = Math.min(...steps.keys()); from < version; from++) {
    if (steps.has(from)) continue
    throw new HoldfastError(
      'invalid_option',
      `upgrade of "${type}" leads up to version ${version} but has no step from ${from}: add it`,
    )
  }
}

function bind<Payload>(definition: JobDefinition, run: HandlerFunction<Payload>): Handler {
  const checked = checkFunction(`the handler of "${definition.type}"`, run)
  if (definition.output === null) return Object.freeze({ definition, run: checked })
  // Around the handler, so that it holds in child processes too and costs those nothing that check no result.
  const withResult: HandlerFunction<Payload> = async (payload, ctx) =>
    checkResult(definition, await checked(payload, ctx))
  return Object.freeze({ definition, run: withResult })
}

const BATCH_MAX = 1_000
const LINGER_MS_MAX = 10_000

function bindBatch<Payload>(definition: JobDefinition, options: BatchOptions, run: BatchFunction<Payload>): Handler {
  const what = `handleBatch of "${definition.type}"`
  checkKeys(what, options, ['max', 'linger', 'sameGroup'])
  const { max, linger = '20ms', sameGroup = false } = options
  const batch = {
    max: checkWhole(`${what}: max`, max, 1, BATCH_MAX),
    lingerMs: durationMs(linger, { name: `${what}: linger`, maxMs: LINGER_MS_MAX }),
    sameGroup: checkBoolean(`${what}: sameGroup`, sameGroup),
    run: withResults(definition, checkFunction(`the handler of "${definition.type}"`, run)) as BatchFunction<never>,
  }
  // Where nothing gathers, as in a child process, each job is a batch of its own.
  const runOne: HandlerFunction<never> = async (payload, ctx) => {
    const results = await batch.run([{ payload, ctx }])
    if (!Array.isArray(results) || results.length !== 1) {
      throw new HoldfastError('invalid_option', `${what} must answer with an array of one result, got ${show(results)}`)
    }
    if (results[0] instanceof Error) throw results[0]
    return results[0]
  }
  return Object.freeze({ definition, run: runOne, batch: Object.freeze(batch) })
}

/** A batch handler whose results are checked; one that does not fit fails its own job alone. */
function withResults<Payload>(definition: JobDefinition, run: BatchFunction<Payload>): BatchFunction<Payload> {
  if (definition.output === null) return run
  return async (jobs) => {
    const results: unknown = await run(jobs)
    if (!Array.isArray(results)) return results
    const check = (result: unknown) =>
      result instanceof Error ? result : checkResult(definition, result).catch((error: Error) => error)
    return Promise.all(results.map(check))
  }
}

function checkFunction<Checked>(what: string, value: Checked): Checked {
  if (typeof value === 'function') return value
  throw new HoldfastError('invalid_option', `${what} must be a function, got ${show(value)}`)
}
