// What a job and a job scheduler of BullMQ are in our words. ◄── bullmq.ts

import { isTraceparent } from '../client/enqueue-options.js'
import { type StoredError, safeText } from '../core/json.js'
import type { RetryPolicy } from '../core/retry.js'
import type { OldJob, OldKind, OldSchedule } from './contract.js'

/** The fields of a hash. */
export type Fields = Readonly<Record<string, string | undefined>>

/** Where jobs are. The lists first: of two jobs without priority the one that waits longer runs first. */
export const PLACES = ['wait', 'paused', 'prioritized', 'delayed', 'failed'] as const

const CAP_MS_MAX = 30 * 86_400_000
// Its score has the time in all but the lowest twelve bits.
const DELAYED_SCORE = 4_096

export function kindOf(place: string): OldKind {
  if (place === 'failed') return 'failed'
  return place === 'delayed' ? 'delayed' : 'waiting'
}

/** Where it is, and the score of a job that waits for a time. */
export interface BullPlace {
  readonly queue: string
  readonly id: string
  readonly place: string
  readonly score: string
}

/** A job by its fields. Never raises: what cannot be read is as if it was not there. */
export function readJob({ queue, id, place, score }: BullPlace, fields: Fields): OldJob {
  const opts = objectOf(fields.opts)
  const attemptsMade = numberOf(fields.atm, 0)
  const kind = kindOf(place)
  const priority = numberOf(fields.priority ?? opts.priority, 0)
  return {
    key: `${id} ${fields.timestamp ?? ''}`,
    id,
    kind,
    type: typeOf(fields.name, queue),
    queue,
    payload: fields.data ?? '{}',
    // 1 is the most urgent there, and none comes before 1.
    priority: priority > 0 ? -priority : 0,
    runAtMs: kind === 'delayed' ? Math.floor(Number(score) / DELAYED_SCORE) : null,
    attemptsMade,
    maxAttempts: Math.max(1, numberOf(opts.attempts, 1)),
    retry: retryOf(opts.backoff, kind === 'failed' ? 0 : attemptsMade),
    timeoutMs: null,
    idempotencyKey: fields.deid ?? (typeof opts.jobId === 'string' && fields.rjk === undefined ? opts.jobId : null),
    group: null,
    tags: [],
    trace: traceOf(opts.tm),
    error: kind === 'failed' ? errorOf(fields) : null,
    lacks: lacksOf(opts),
  }
}

/** Jobs that were added without a name have this one. */
function typeOf(name: string | undefined, queue: string): string {
  return name === undefined || name === '' || name === '__default__' ? queue : name
}

/** The waits go on where they stood, though attempts are counted from 1 again. */
function retryOf(backoff: unknown, made: number): RetryPolicy | null {
  const { type, delay, jitter } =
    typeof backoff === 'number' ? { type: 'fixed', delay: backoff } : (objectOf(backoff) as Backoff)
  const baseMs = Math.max(0, numberOf(delay, 0))
  const isSpread = numberOf(jitter, 0) > 0
  if (type === undefined || type === 'fixed')
    return { backoff: 'fixed', baseMs, capMs: Math.max(baseMs, 1), jitter: isSpread }
  if (type !== 'exponential') return null
  const firstMs = Math.min(CAP_MS_MAX, baseMs * 2 ** Math.min(made, 30))
  return { backoff: 'exponential', baseMs: firstMs, capMs: CAP_MS_MAX, jitter: isSpread }
}

interface Backoff {
  readonly type?: unknown
  readonly delay?: unknown
  readonly jitter?: unknown
}

function traceOf(metadata: unknown): string | null {
  const { traceparent } = objectOf(metadata)
  return isTraceparent(traceparent) ? traceparent : null
}

function errorOf({ failedReason, stacktrace }: Fields): StoredError {
  const stacks = listOf(stacktrace)
  const stack = stacks.at(-1)
  return {
    name: /^(\w*Error)\b/.exec(typeof stack === 'string' ? stack : '')?.[1] ?? 'Error',
    message: safeText(failedReason ?? '', 4_096),
    ...(typeof stack === 'string' ? { stack: safeText(stack, 8_192) } : {}),
  }
}

function lacksOf(opts: Readonly<Record<string, unknown>>): string[] {
  const lacks: string[] = []
  const { type } = objectOf(opts.backoff) as Backoff
  if (type !== undefined && type !== 'fixed' && type !== 'exponential')
    lacks.push('custom backoff: the defaults of Holdfast')
  if (opts.lifo === true) lacks.push('lifo: jobs run in the order of their enqueue')
  if (opts.removeOnComplete !== undefined || opts.removeOnFail !== undefined)
    lacks.push('removeOnComplete and removeOnFail: queues have a retention')
  const { ttl } = objectOf(opts.de)
  if (ttl !== undefined) lacks.push('deduplication with a ttl: its key is held until the job has ended')
  if (opts.sizeLimit !== undefined) lacks.push('sizeLimit')
  return lacks
}

/** A scheduler by its fields. `nextAt` is its score. */
export function readScheduler(queue: string, id: string, nextAt: string, fields: Fields): OldSchedule {
  const { name, pattern, every, tz, endDate, data, limit, startDate } = fields
  const opts = objectOf(fields.opts)
  const everyMs = numberOf(every, 0)
  const priority = numberOf(opts.priority, 0)
  const hasTimes = pattern !== undefined || everyMs > 0
  return {
    ref: JSON.stringify([queue, id]),
    name: `${queue}:${id}`,
    type: typeOf(name, queue),
    queue,
    payload: data ?? '{}',
    priority: priority > 0 ? -priority : 0,
    when: pattern === undefined ? { everyMs } : { cron: pattern },
    zone: tz ?? 'UTC',
    untilMs: endDate === undefined ? null : timeOf(endDate),
    nextAtMs: Number(nextAt),
    maxAttempts: opts.attempts === undefined ? null : Math.max(1, numberOf(opts.attempts, 1)),
    // A scheduler makes its next job when the one before runs: ticks of a time without workers are not made up for.
    catchUp: 'skip',
    catchUpMax: 100,
    lacks: [
      ...(limit === undefined ? [] : ['limit of a job scheduler']),
      ...(startDate === undefined ? [] : ['startDate of a job scheduler']),
      ...(everyMs > 0 ? ['every: its ticks are at multiples of the span, counted from 1970'] : []),
    ],
    problem: hasTimes ? null : 'it has neither pattern nor every: a repeatable job of an older BullMQ',
    isRemovable: true,
  }
}

function timeOf(text: string): number | null {
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text)
  return Number.isFinite(ms) ? ms : null
}

function numberOf(value: unknown, otherwise: number): number {
  const number = Number(value ?? otherwise)
  return Number.isFinite(number) ? number : otherwise
}

/** An object, or the one that a text has as JSON; empty for anything else. */
function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  const read = typeof value === 'string' ? parsed(value) : value
  return typeof read === 'object' && read !== null && !Array.isArray(read) ? (read as Record<string, unknown>) : {}
}

function listOf(text: string | undefined): readonly unknown[] {
  const read = text === undefined ? [] : parsed(text)
  return Array.isArray(read) ? read : []
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
