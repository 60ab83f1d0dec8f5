// What a filter means. The memory store lists by this; every other store must find the same jobs.

import { fingerprint } from './fingerprint.js'
import type { JobFilter, JsonScalar, NumberMatch, PayloadMatch, TimeMatch } from './job-filter.js'
import type { JobView } from './views.js'

/** What a filter looks at. */
export type MatchedJob = Pick<
  JobView,
  | 'id'
  | 'queue'
  | 'type'
  | 'state'
  | 'tags'
  | 'reason'
  | 'worker'
  | 'idempotencyKey'
  | 'schedule'
  | 'flow'
  | 'error'
  | 'payload'
  | 'attempt'
  | 'priority'
  | 'createdAt'
  | 'finishedAt'
>

/** True when the job matches every field of the filter. Ages count back from `nowMs`, the store's time. */
export function matches(filter: JobFilter, job: MatchedJob, nowMs: number): boolean {
  return matchesNames(filter, job) && matchesContent(filter, job) && matchesMeasures(filter, job, nowMs)
}

function matchesNames(filter: JobFilter, job: MatchedJob): boolean {
  return (
    isIn(filter.states, job.state) &&
    !(filter.notStates ?? []).includes(job.state) &&
    isLike(filter.queues, job.queue) &&
    !(filter.notQueues ?? []).some((pattern) => isLikeOne(pattern, job.queue)) &&
    isLike(filter.types, job.type) &&
    !(filter.notTypes ?? []).some((pattern) => isLikeOne(pattern, job.type)) &&
    isLike(filter.workers, job.worker) &&
    isIn(filter.ids, job.id) &&
    isIn(filter.reasons, job.reason) &&
    isIn(filter.groups, job.flow?.group ?? null) &&
    isIn(filter.keys, job.idempotencyKey) &&
    isIn(filter.schedules, job.schedule?.name ?? null)
  )
}

function matchesContent(filter: JobFilter, job: MatchedJob): boolean {
  const { tags = [], notTags = [], errors = [], payload = [], fingerprints } = filter
  return (
    tags.every((term) => term.some((tag) => job.tags.includes(tag))) &&
    !notTags.some((tag) => job.tags.includes(tag)) &&
    errors.every((term) => term.some((text) => saysError(job, text))) &&
    (fingerprints === undefined || (job.state === 'dead' && fingerprints.includes(fingerprint(job.error)))) &&
    payload.every((match) => isAt(match, job.payload))
  )
}

function matchesMeasures(filter: JobFilter, job: MatchedJob, nowMs: number): boolean {
  const { attempt = [], priority = [], created = [], finished = [] } = filter
  return (
    attempt.every((term) => term.some((match) => compares(match, job.attempt))) &&
    priority.every((term) => term.some((match) => compares(match, job.priority))) &&
    created.every((match) => isThen(match, job.createdAt.getTime(), nowMs)) &&
    finished.every((match) => job.finishedAt !== null && isThen(match, job.finishedAt.getTime(), nowMs))
  )
}

function isIn<T>(values: readonly T[] | undefined, value: T | null): boolean {
  return values === undefined || (value !== null && values.includes(value))
}

function isLike(patterns: readonly string[] | undefined, value: string | null): boolean {
  return patterns === undefined || (value !== null && patterns.some((pattern) => isLikeOne(pattern, value)))
}

/** True when the text fits the pattern, in which `*` stands for any run of characters. */
export function isLikeOne(pattern: string, text: string): boolean {
  const [first = '', ...others] = pattern.split('*')
  if (others.length === 0) return text === pattern
  const last = others.pop()!
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false
  let at = first.length
  for (const part of others) {
    const found = text.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= text.length - last.length
}

function saysError({ error }: MatchedJob, text: string): boolean {
  if (error === null) return false
  const sought = foldCase(text)
  return foldCase(error.message).includes(sought) || foldCase(error.name).includes(sought)
}

// Only A to Z: what else counts as the same letter differs from server to server.
function foldCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

function isAt({ path, anyOf }: PayloadMatch, payload: unknown): boolean {
  let value = payload
  for (const part of path) {
    if (Array.isArray(value)) value = /^\d{1,9}$/.test(part) ? value[Number(part)] : undefined
    else if (typeof value === 'object' && value !== null && Object.hasOwn(value, part)) {
      value = (value as Record<string, unknown>)[part]
    } else return false
    if (value === undefined) return false
  }
  return anyOf === null || anyOf.includes(value as JsonScalar)
}

function compares({ op, value }: NumberMatch, number: number): boolean {
  if (op === '=') return number === value
  if (op === '>') return number > value
  if (op === '>=') return number >= value
  return op === '<' ? number < value : number <= value
}

function isThen(match: TimeMatch, ms: number, nowMs: number): boolean {
  if ('atMs' in match) return compares({ op: match.op, value: match.atMs }, ms)
  return compares({ op: match.op, value: match.ageMs }, nowMs - ms)
}

/** The filter, narrowed to some queues, each by its whole name: for those who may see no others. */
export function narrowQueues(filter: JobFilter, queues: readonly string[]): JobFilter {
  return { ...filter, queues: queues.filter((queue) => isLike(filter.queues, queue)) }
}

const EVERYTHING = /^\*+$/

/** True for a filter that leaves no job out: an empty one, or one whose every name is `*`. */
export function isEveryJob({ queues, types, ...others }: JobFilter): boolean {
  const isOpen = (patterns: readonly string[] | undefined) =>
    patterns === undefined || patterns.some((pattern) => EVERYTHING.test(pattern))
  return (
    isOpen(queues) && isOpen(types) && Object.values(others).every((terms) => terms === undefined || terms.length === 0)
  )
}
