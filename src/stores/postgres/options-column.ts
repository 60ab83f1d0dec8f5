// The options column of jobs: fields that few jobs have, in one JSON value, so that plain jobs do not store them.

import { DURATION_MS_MAX } from '../../core/duration.js'
import { COST_MAX, GROUP_LENGTH_MAX, type JobFlow } from '../../core/flow/job-flow.js'
import type { IdempotencyKey, NewJob } from '../../core/job.js'
import { ATTEMPTS_MAX, type JobLimits } from '../../core/limits.js'
import type { RetryPolicy } from '../../core/retry.js'

/** The schedule and tick that made a job. */
export interface TickOrigin {
  readonly name: string
  readonly tickMs: number
}

/** What the column holds. Absent fields have their usual value. */
export interface StoredOptions {
  readonly limits?: JobLimits
  readonly key?: IdempotencyKey
  readonly after?: readonly string[]
  readonly onParentDead?: 'run'
  readonly trace?: string
  readonly schedule?: TickOrigin
  readonly flow?: JobFlow
  readonly enqueuedBy?: string
}

/** The column's text for a job, or null when everything is as usual. */
export function writeOptions(job: NewJob, schedule: TickOrigin | null): string | null {
  const options: StoredOptions = {
    ...(Object.keys(job.limits).length > 0 ? { limits: job.limits } : {}),
    ...(job.idempotencyKey === null ? {} : { key: job.idempotencyKey }),
    ...(job.after.length > 0 ? { after: job.after } : {}),
    ...(job.onParentDead === 'run' ? { onParentDead: 'run' } : {}),
    ...(job.trace === null ? {} : { trace: job.trace }),
    ...(schedule === null ? {} : { schedule }),
    ...(job.flow === undefined ? {} : { flow: job.flow }),
    ...(job.enqueuedBy === undefined ? {} : { enqueuedBy: job.enqueuedBy }),
  }
  return Object.keys(options).length === 0 ? null : JSON.stringify(options)
}

const USUAL: StoredOptions = {}

/** Reads the column. A role that enqueues by SQL may have written anything there: what makes no sense counts as absent, so that no
 *  job can keep others from being claimed, rescued or shown. */
export function readOptions(text: string | null | undefined): StoredOptions {
  if (text === null || text === undefined) return USUAL
  const record = asRecord(JSON.parse(text))
  // Most jobs with options have a group or limits, and nothing else.
  if (Object.keys(record).length === 1 && isFlow(record.flow)) return { flow: record.flow }
  const { limits, key, after, onParentDead, trace, schedule, flow, enqueuedBy } = record
  return {
    ...(limits === undefined ? {} : { limits: readLimits(limits) }),
    ...(isKey(key) ? { key } : {}),
    ...(isListOf(after, isText) ? { after } : {}),
    ...(onParentDead === 'run' ? { onParentDead } : {}),
    ...(isText(trace) ? { trace } : {}),
    ...(isTick(schedule) ? { schedule } : {}),
    ...(isFlow(flow) ? { flow } : {}),
    ...(isText(enqueuedBy) ? { enqueuedBy } : {}),
  }
}

const NO_LIMITS: JobLimits = {}

/** The limits in a queue's settings column. */
export function readQueueLimits(settings: string | null | undefined): JobLimits {
  if (settings === null || settings === undefined) return NO_LIMITS
  return readLimits(asRecord(JSON.parse(settings)).limits)
}

function readLimits(stored: unknown): JobLimits {
  const { maxAttempts, retry, timeoutMs, maxAgeMs, startByMs } = asRecord(stored)
  return {
    ...(isCount(maxAttempts, ATTEMPTS_MAX) ? { maxAttempts } : {}),
    ...(isRetry(retry) ? { retry } : {}),
    ...(timeoutMs === null || isMs(timeoutMs) ? { timeoutMs } : {}),
    ...(maxAgeMs === null || isMs(maxAgeMs) ? { maxAgeMs } : {}),
    ...(typeof startByMs === 'number' && startByMs >= 0 && startByMs < TIME_MS_END ? { startByMs } : {}),
  }
}

function isRetry(value: unknown): value is RetryPolicy {
  const { backoff, baseMs, capMs, jitter } = asRecord(value)
  const isKnown = backoff === 'exponential' || backoff === 'linear' || backoff === 'fixed'
  return (isKnown || isListOf(backoff, isMs)) && isMs(baseMs) && isMs(capMs) && typeof jitter === 'boolean'
}

function isKey(value: unknown): value is IdempotencyKey {
  const { key, ttlMs } = asRecord(value)
  return isText(key) && (ttlMs === null || isMs(ttlMs))
}

function isTick(value: unknown): value is TickOrigin {
  const { name, tickMs } = asRecord(value)
  return isText(name) && typeof tickMs === 'number' && tickMs >= 0 && tickMs < TIME_MS_END
}

function isFlow(value: unknown): value is JobFlow {
  const { group, limits, cost } = asRecord(value)
  const isGroup = group === null || (isText(group) && group.length > 0 && group.length <= GROUP_LENGTH_MAX)
  const isCost = typeof cost === 'number' && Number.isInteger(cost) && cost >= 0 && cost <= COST_MAX
  return isGroup && isCost && Array.isArray(limits) && limits.every(isText)
}

/** The tags column, read as JSON. */
export function readTags(text: string | null | undefined): readonly string[] {
  if (text === null || text === undefined) return NO_TAGS
  const tags: unknown = JSON.parse(text)
  return Array.isArray(tags) ? tags.filter(isText) : NO_TAGS
}

const NO_TAGS: readonly string[] = []
const TIME_MS_END = Date.UTC(10_000, 0)

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isListOf<T>(value: unknown, isOne: (one: unknown) => one is T): value is readonly T[] {
  return Array.isArray(value) && value.length > 0 && value.every(isOne)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isMs(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= DURATION_MS_MAX
}

function isCount(value: unknown, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max
}
