// One job of an enqueue, checked: its options put together with its definition's, its payload serialised, its id made.
// ◄── client.ts · next: group-commit.ts

import { checkChoice, checkDate, checkId, checkKey, checkKeys, checkName, checkTags } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError, show } from '../core/errors.js'
import type { Enqueued, IdempotencyKey, NewJob } from '../core/job.js'
import type { Queryable } from '../core/job-store.js'
import { encodePayload } from '../core/json.js'
import { type Checked, checkPayload } from '../core/payload.js'
import type { JobState } from '../core/states.js'
import { checkPriority, DEFAULT_QUEUE, LIMIT_OPTIONS, type LimitOptions, resolveLimitOptions } from './define-job.js'

/** The most jobs one job may come after. */
const PARENTS_MAX = 100

/** What one enqueue says about its job beyond the payload. */
export interface EnqueueOptions extends LimitOptions {
  /** Default: the definition's queue, or 'default'. */
  readonly queue?: string
  /** Higher runs first, from −32,768 to 32,767. Default: the definition's, or 0. */
  readonly priority?: number
  /** Not before this time: a Date or an ISO date with a time zone. Not together with `delay`. */
  readonly runAt?: Date | string
  /** Not before this long from now, by the store's clock. Not together with `runAt`. */
  readonly delay?: Duration
  /**
   * Keeps a second job away. As text, while the job that has it is unfinished; as `{ key, for }`, for that long from its
   * enqueue whatever becomes of it. Unique within a queue. The call answers with the job that has it and `created: false`.
   */
  readonly idempotencyKey?: string | { readonly key: string; readonly for: Duration }
  /** The id, or up to 100 ids, of jobs it comes after: it waits, blocked, until all of them have finished. */
  readonly after?: string | readonly string[]
  /** What happens when one of those dies or is cancelled: this one is cancelled too (the default), or runs all the same. */
  readonly onParentDead?: 'cancel' | 'run'
  /** Added to the definition's; at most 16 together. */
  readonly tags?: readonly string[]
  /** The W3C trace context it belongs to, `00-<trace>-<span>-<flags>`, kept with the job. Default: what the connection's
   *  tracer gives, or none. For those who pass on what they were sent, as the HTTP API does. */
  readonly traceparent?: string
  /** The caller's own transaction: the job exists exactly if that commits. Call `wake(queue)` after the commit to have it
   *  started immediately instead of at the next look. */
  readonly tx?: Queryable
  /** Stops waiting for the answer. The call rejects with `aborted`. */
  readonly signal?: AbortSignal
}

/** Who runs a job: its definition, or the type alone where the producer does not have the definition. */
export type JobTarget = JobDefinition | string

/** What an enqueue came to. */
export interface EnqueueResult {
  /** Of the new job, or of the one that has the idempotency key. */
  readonly id: string
  /** False when the idempotency key was taken, so that nothing was written. */
  readonly created: boolean
  /** Where that job stands. */
  readonly state: JobState
}

/** What preparing needs from the client. */
export interface Preparation {
  nextId(): string
  readonly payloadBytesMax: number
  /** The W3C trace context of the call, kept with its jobs; null when nobody traces. */
  readonly trace: string | null
}

/** The job as the store takes it; raises for a payload or an option that does not fit. A promise only when the schema
 *  answers with one. */
export function prepareJob(
  preparation: Preparation,
  target: JobTarget,
  payload: unknown,
  options: EnqueueOptions | undefined,
): NewJob | Promise<NewJob> {
  const terms = resolveTerms(target, options)
  const trace = resolveTrace(options) ?? preparation.trace
  const text = encodeChecked(target, payload, preparation.payloadBytesMax)
  if (typeof text === 'string') return makeJob(preparation.nextId(), terms, text, trace)
  return text.then((checked) => makeJob(preparation.nextId(), terms, checked, trace))
}

// Field by field: a spread made a quarter of an enqueue's cost here, and slower objects for the store to read.
function makeJob(id: string, terms: JobTerms, payload: string, trace: string | null): NewJob {
  return {
    id,
    queue: terms.queue,
    type: terms.type,
    payload,
    version: terms.version,
    priority: terms.priority,
    when: terms.when,
    limits: terms.limits,
    idempotencyKey: terms.idempotencyKey,
    after: terms.after,
    onParentDead: terms.onParentDead,
    tags: terms.tags,
    trace,
  }
}

/**
 * The payload as JSON text, checked against its definition's schema. What is checked is the value read back from that
 * text, because that is what the worker will see: a Date that becomes a string is found out here, not by a dead job.
 */
export function encodeChecked(target: JobTarget, payload: unknown, bytesMax: number): string | Promise<string> {
  const definition = definitionOf(target)
  const text = encodePayload(definition?.type ?? (target as string), payload, bytesMax)
  if (definition === null || definition.schema === null) return text
  let checked: Checked | Promise<Checked>
  try {
    checked = checkPayload(definition, JSON.parse(text))
  } catch (cause) {
    throw schemaThrew(definition, cause)
  }
  const accept = (result: Checked) => acceptText(definition, text, result)
  if (!(checked instanceof Promise)) return accept(checked)
  return checked.then(accept, (cause) => {
    throw schemaThrew(definition, cause)
  })
}

function acceptText(definition: JobDefinition, text: string, checked: Checked): string {
  if ('value' in checked) return text
  throw new HoldfastError(
    'invalid_payload',
    `the payload of "${definition.type}", as it would be stored, does not fit its schema: ${checked.problem}`,
    { details: { type: definition.type, problem: checked.problem } },
  )
}

function schemaThrew(definition: JobDefinition, cause: unknown): HoldfastError {
  return new HoldfastError(
    'invalid_payload',
    `the schema of "${definition.type}" threw instead of answering: ${(cause as Error)?.message ?? cause}`,
    { cause },
  )
}

/** What an enqueue says about its job, complete. */
export type JobTerms = Omit<NewJob, 'id' | 'payload' | 'trace'>

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** True for text that is a W3C trace context. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && TRACEPARENT.test(value)
}

/** What the enqueue says about its trace, or null. Raises `invalid_option` for what is no trace context. */
function resolveTrace(options: EnqueueOptions | undefined): string | null {
  const value = options?.traceparent
  if (value === undefined) return null
  if (isTraceparent(value)) return value
  throw new HoldfastError(
    'invalid_option',
    `traceparent must be a W3C trace context such as 00-<32 hex digits>-<16 hex digits>-01, got ${show(value)}`,
  )
}

const KNOWN = [
  'queue',
  'priority',
  'runAt',
  'delay',
  ...LIMIT_OPTIONS,
  'idempotencyKey',
  'after',
  'onParentDead',
  'tags',
  'traceparent',
  'tx',
  'signal',
]

/** The terms of one job: the enqueue's own options first, then its definition's, then the defaults. */
function resolveTerms(target: JobTarget, options: EnqueueOptions | undefined): JobTerms {
  const terms = startingTerms(target)
  if (options === undefined) return terms
  checkKeys('enqueue', options, KNOWN)
  checkTx(options.tx)
  checkSignal(options.signal)
  return {
    ...terms,
    queue: options.queue === undefined ? terms.queue : checkName('queue', options.queue),
    priority: options.priority === undefined ? terms.priority : checkPriority(options.priority),
    when: resolveWhen(options),
    limits: { ...terms.limits, ...resolveLimitOptions(options) },
    idempotencyKey: resolveKey(options.idempotencyKey),
    after: resolveParents(options.after),
    onParentDead:
      options.onParentDead === undefined
        ? terms.onParentDead
        : checkChoice('onParentDead', options.onParentDead, ['cancel', 'run']),
    tags: options.tags === undefined ? terms.tags : checkTags([...terms.tags, ...checkTags(options.tags)]),
  }
}

const NO_LIMITS: JobTerms['limits'] = Object.freeze({})
const NONE: readonly string[] = Object.freeze([])

/** What holds for a job of this target when its enqueue says nothing. */
export function startingTerms(target: JobTarget): JobTerms {
  const definition = definitionOf(target)
  return {
    queue: definition?.queue ?? DEFAULT_QUEUE,
    type: definition?.type ?? checkName('type', target),
    version: definition?.version ?? 1,
    priority: definition?.priority ?? 0,
    when: null,
    // Kept with the job, so that a process that does not know the definition can rescue it by the same rules.
    limits: definition?.limits ?? NO_LIMITS,
    idempotencyKey: null,
    after: NONE,
    onParentDead: 'cancel',
    tags: definition?.tags ?? NONE,
  }
}

/** The definition, or null for a bare type. Raises `invalid_option` for anything else. */
function definitionOf(target: JobTarget): JobDefinition | null {
  if (typeof target === 'string') return null
  if (typeof target === 'object' && target !== null && typeof target.handle === 'function') return target
  throw new HoldfastError('invalid_option', `a job must be given by defineJob(…) or by its type, got ${show(target)}`)
}

/** Raises `invalid_option` unless `value` is absent or something queries can be sent to. */
export function checkTx(value: unknown): void {
  if (value === undefined) return
  if (typeof value === 'object' && value !== null && typeof (value as Queryable).query === 'function') return
  throw new HoldfastError(
    'invalid_option',
    `tx must have a query(text, values) method, such as a pg client inside a transaction, got ${show(value)}`,
  )
}

/** Raises `invalid_option` unless `value` is absent or an AbortSignal. */
export function checkSignal(value: unknown): void {
  if (value === undefined) return
  // By its shape: polyfills and other realms have classes of their own.
  const signal = value as Partial<AbortSignal> | null
  if (typeof signal === 'object' && typeof signal?.aborted === 'boolean' && signal.addEventListener !== undefined)
    return
  throw new HoldfastError('invalid_option', `signal must be an AbortSignal, got ${show(value)}`)
}

function resolveWhen({ runAt, delay }: EnqueueOptions): NewJob['when'] {
  if (runAt !== undefined && delay !== undefined) {
    throw new HoldfastError('invalid_option', 'runAt and delay both say when the job may run: give one of them')
  }
  if (runAt !== undefined) return { runAtMs: checkDate('runAt', runAt).getTime() }
  if (delay !== undefined) return { delayMs: durationMs(delay, { name: 'delay' }) }
  return null
}

function resolveKey(value: EnqueueOptions['idempotencyKey']): IdempotencyKey | null {
  if (value === undefined) return null
  if (typeof value === 'string') return { key: checkKey(value), ttlMs: null }
  checkKeys('idempotencyKey', value, ['key', 'for'])
  return { key: checkKey(value.key), ttlMs: durationMs(value.for, { name: 'idempotencyKey.for', minMs: 1 }) }
}

function resolveParents(value: EnqueueOptions['after']): readonly string[] {
  if (value === undefined) return []
  if (!Array.isArray(value)) return [checkId('after', value)]
  if (value.length > PARENTS_MAX) {
    throw new HoldfastError(
      'invalid_option',
      `after takes at most ${PARENTS_MAX} ids, got ${value.length}: put a job that gathers some of them in between`,
    )
  }
  return [...new Set(value.map((id, index) => checkId(`after[${index}]`, id)))]
}

/** The answer for one job; raises `unknown_parent`. */
export function acceptOne(answer: Enqueued): EnqueueResult {
  if (!('unknownParent' in answer)) return answer.claimed === undefined ? answer : withoutClaim(answer)
  throw new HoldfastError(
    'unknown_parent',
    `job ${answer.id} was not enqueued: it comes after job ${answer.unknownParent}, which does not exist`,
    { details: { id: answer.id, parent: answer.unknownParent } },
  )
}

function withoutClaim({ id, created, state }: EnqueueResult): EnqueueResult {
  return { id, created, state }
}
