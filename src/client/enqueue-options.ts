// What an enqueue may say about its job beyond the payload: priority, time, key, parents, limits, transaction. ◄── prepare.ts

import { checkBoolean, checkChoice, checkDate, checkId, checkKeys, checkName, checkTags } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError, show } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import type { Queryable } from '../core/job-store.js'
import { checkKeptName } from '../core/kept/kept.js'
import { checkPriority, LIMIT_OPTIONS, type LimitOptions, resolveLimitOptions } from './define-job.js'
import { FLOW_OPTIONS, type FlowOptions } from './flow-options.js'
import { type JobKeyOptions, KEY_OPTIONS, resolveKeyOptions } from './key-options.js'

/** The most jobs one job may come after. */
const PARENTS_MAX = 100

/** What one enqueue says about its job beyond the payload. */
export interface EnqueueOptions extends LimitOptions, FlowOptions, JobKeyOptions {
  /** Default: the definition's queue, or 'default'. */
  readonly queue?: string
  /** Higher runs first, from −32,768 to 32,767. Default: the definition's, or 0. */
  readonly priority?: number
  /** Newest first: of its priority it runs before the jobs that were enqueued before it. Not with a group. Default: the definition's, or
   *  false. */
  readonly lifo?: boolean
  /** Not before this time: a Date or an ISO date with a time zone. Not together with `delay`. */
  readonly runAt?: Date | string
  /** Not before this long from now, by the store's clock. Not together with `runAt`. */
  readonly delay?: Duration
  /** When its first attempt has to begin at the latest, by the store's clock: after that the job is dead, expired, instead of run. It does not
   *  count for retries. Default: any time. */
  readonly startBy?: Date | string
  /** The id, or up to 100 ids, of jobs it comes after: it waits, blocked, until all of them have finished. */
  readonly after?: string | readonly string[]
  /** What happens when one of those dies or is cancelled: this one is cancelled too (the default), or runs all the same. */
  readonly onParentDead?: 'cancel' | 'run'
  /** Added to the definition's; at most 16 together. */
  readonly tags?: readonly string[]
  /** The W3C trace context it belongs to, `00-<trace>-<span>-<flags>`, kept with the job. Default: what the connection's
   *  tracer gives, or none. For those who pass on what they were sent, as the HTTP API does. */
  readonly traceparent?: string
  /** The job whose handler enqueues this one, kept with it. `ctx.enqueue` sets it. */
  readonly enqueuedBy?: string
  /** With `enqueuedBy`, as in `ctx.enqueue`: the name of the job among those that job enqueued. Its id is made from both, so enqueueing it again
   *  changes nothing. `ctx.waitForChildren()` waits for such jobs. */
  readonly child?: string
  /** The caller's own transaction: the job exists exactly if that commits. Call `wake(queue)` after the commit to have it
   *  started immediately instead of at the next look. */
  readonly tx?: Queryable
  /** What to do when the queue or the group is full: raise `queue_full` or `group_full`, or wait for room, up to `signal` or 30 s. Default:
   *  what the queue says. Not 'wait' with `tx`, whose transaction would stay open meanwhile. */
  readonly onFull?: 'reject' | 'wait'
  /** Stops waiting for the answer. The call rejects with `aborted`. */
  readonly signal?: AbortSignal
}

/** What holds for a job beside its id, payload and trace. */
export type JobTerms = Omit<NewJob, 'id' | 'payload' | 'trace' | 'flow'>

const KNOWN = [
  'queue',
  'priority',
  'lifo',
  'runAt',
  'delay',
  'startBy',
  ...LIMIT_OPTIONS,
  ...FLOW_OPTIONS,
  ...KEY_OPTIONS,
  'onFull',
  'after',
  'onParentDead',
  'tags',
  'traceparent',
  'enqueuedBy',
  'child',
  'tx',
  'signal',
]

/** The terms of one job: the enqueue's own options, checked, before those of `terms`. Raises `invalid_option`. */
export function withOptions(terms: JobTerms, options: EnqueueOptions): JobTerms {
  checkKeys('enqueue', options, KNOWN)
  checkTx(options.tx)
  checkSignal(options.signal)
  checkOnFull(options)
  checkChild(options)
  const key = resolveKeyOptions(options)
  if (key.replace !== undefined) checkReplaceable(options)
  return {
    ...terms,
    queue: options.queue === undefined ? terms.queue : checkName('queue', options.queue),
    priority: options.priority === undefined ? terms.priority : checkPriority(options.priority),
    when: resolveWhen(options),
    limits: { ...terms.limits, ...resolveLimitOptions(options), ...resolveStartBy(options) },
    ...key,
    after: resolveParents(options.after),
    onParentDead:
      options.onParentDead === undefined
        ? terms.onParentDead
        : checkChoice('onParentDead', options.onParentDead, ['cancel', 'run']),
    tags: options.tags === undefined ? terms.tags : checkTags([...terms.tags, ...checkTags(options.tags)]),
    ...(options.lifo === undefined ? {} : { lifo: checkBoolean('lifo', options.lifo) ? (true as const) : undefined }),
    ...(options.enqueuedBy === undefined ? {} : { enqueuedBy: checkId('enqueuedBy', options.enqueuedBy) }),
  }
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

function resolveStartBy({ startBy }: EnqueueOptions): NewJob['limits'] {
  return startBy === undefined ? {} : { startByMs: checkDate('startBy', startBy).getTime() }
}

function checkChild({ child, enqueuedBy, tx }: EnqueueOptions): void {
  if (child === undefined) return
  checkKeptName('child', child)
  if (enqueuedBy === undefined) {
    throw new HoldfastError(
      'invalid_option',
      'child is the name of a job among those of another: use it with ctx.enqueue, or with enqueuedBy',
    )
  }
  if (tx === undefined) return
  throw new HoldfastError(
    'invalid_option',
    'child cannot be used with tx: that the job is there would be kept before the transaction commits',
  )
}

function checkOnFull({ onFull, tx }: EnqueueOptions): void {
  if (onFull === undefined) return
  if (checkChoice('onFull', onFull, ['reject', 'wait']) === 'reject' || tx === undefined) return
  throw new HoldfastError(
    'invalid_option',
    "onFull: 'wait' cannot be given with tx: the transaction would stay open while the enqueue waits for room",
  )
}

/** The job that takes a newer payload keeps its own time and parents, so the newer one can have none. */
function checkReplaceable(options: EnqueueOptions): void {
  for (const name of ['runAt', 'delay', 'after'] as const) {
    if (options[name] === undefined) continue
    throw new HoldfastError('invalid_option', `${name} cannot be given together with debounce or replace`)
  }
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

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** True for text that is a W3C trace context. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && TRACEPARENT.test(value)
}

/** The trace context, if it is one. Raises `invalid_option` for anything else. */
export function checkTraceparent(value: unknown): string {
  if (isTraceparent(value)) return value
  throw new HoldfastError(
    'invalid_option',
    `traceparent must be a W3C trace context such as 00-<32 hex digits>-<16 hex digits>-01, got ${show(value)}`,
  )
}
