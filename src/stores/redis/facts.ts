// The facts of a job as text. jobs.ts has the format, and reads the parts of it that functions need.

import type { IdempotencyKey, NewJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'
import { readFlow, writeFlow } from './held.js'
import { longId, shortId } from './ids.js'

/** The schedule and tick that made a job. */
export interface MadeBy {
  readonly name: string
  readonly tickMs: number
}

export interface Facts
  extends Pick<
    NewJob,
    | 'queue'
    | 'type'
    | 'version'
    | 'priority'
    | 'idempotencyKey'
    | 'after'
    | 'onParentDead'
    | 'tags'
    | 'trace'
    | 'enqueuedBy'
    | 'flow'
  > {
  readonly createdAtMs: number
  readonly limits: JobLimits
  readonly schedule: MadeBy | null
}

/** What few jobs have. Absent parts are the usual ones. */
interface Options {
  readonly limits?: JobLimits
  readonly schedule?: MadeBy
  readonly enqueuedBy?: string
}

/** What a newer payload replaces as well. */
interface Replaceable {
  readonly version?: number
  readonly tags?: readonly string[]
  readonly trace?: string
}

/** The facts without the time of creation, which the server adds. */
export function writeFacts(job: NewJob, schedule: MadeBy | null): string {
  const { type, queue, priority, idempotencyKey, after, onParentDead, payload } = job
  const parents = after.length === 0 ? '-' : (onParentDead === 'run' ? 'r' : 'c') + after.map(shortId).join(',')
  // Whether a job without parents would run after a dead one does not matter, but it is shown.
  const links = parents === '-' && onParentDead === 'run' ? 'r' : parents
  const key = idempotencyKey === null ? '-' : keyText(idempotencyKey.key)
  return `${type} ${queue} ${priority} ${links} ${key} ${idempotencyKey?.ttlMs ?? '-'} ${writeFlow(job.flow)}${optionsOf(job, schedule)}\n${payload}`
}

/** A key as it stands in facts and in keys:<queue>: JSON without blanks. */
export function keyText(key: string): string {
  return JSON.stringify(key).replaceAll(' ', '\\u0020')
}

function optionsOf({ version, limits, tags, trace, enqueuedBy }: NewJob, schedule: MadeBy | null): string {
  const isUsual = version === 1 && tags.length === 0 && trace === null && schedule === null && enqueuedBy === undefined
  if (isUsual && Object.keys(limits).length === 0) return '\t'
  const options: Options = {
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(schedule === null ? {} : { schedule }),
    ...(enqueuedBy === undefined ? {} : { enqueuedBy }),
  }
  const replaceable: Replaceable = {
    ...(version === 1 ? {} : { version }),
    ...(tags.length === 0 ? {} : { tags }),
    ...(trace === null ? {} : { trace }),
  }
  return `${jsonUnlessEmpty(options)}\t${jsonUnlessEmpty(replaceable)}`
}

function jsonUnlessEmpty(value: object): string {
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value)
}

function parseUnlessEmpty(text: string | undefined): object {
  return text ? (JSON.parse(text) as object) : {}
}

/** Reads the head of facts: what stands before the payload. */
export function readHead(head: string): Facts {
  const [created, type, queue, priority, parents, key, ttl, ...rest] = head.split(' ') as [
    ...[string, string, string, string, string, string, string],
    ...string[],
  ]
  const flow = rest[0]?.startsWith('@') ? readFlow([rest[0].slice(1), ...rest.splice(0, 4).slice(1)]) : undefined
  const [text, replaced] = rest.join(' ').split('\t')
  const options: Options & Replaceable = { ...parseUnlessEmpty(text), ...parseUnlessEmpty(replaced) }
  const idempotencyKey: IdempotencyKey | null =
    key === '-' ? null : { key: JSON.parse(key) as string, ttlMs: ttl === '-' ? null : Number(ttl) }
  return {
    createdAtMs: Number(created),
    type,
    queue,
    priority: Number(priority),
    version: options.version ?? 1,
    limits: options.limits ?? {},
    idempotencyKey,
    after: parents.length <= 1 ? [] : parents.slice(1).split(',').map(longId),
    onParentDead: parents.startsWith('r') ? 'run' : 'cancel',
    tags: options.tags ?? [],
    trace: options.trace ?? null,
    schedule: options.schedule ?? null,
    ...(flow === undefined ? {} : { flow }),
    ...(options.enqueuedBy === undefined ? {} : { enqueuedBy: options.enqueuedBy }),
  }
}
