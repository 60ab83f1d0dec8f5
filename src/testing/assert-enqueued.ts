// Assertions about what was enqueued, with messages that show what is there instead.

import { AssertionError } from 'node:assert'
import { type JobTarget, startingTerms } from '../client/prepare.js'
import { checkKeys } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import type { JobState } from '../core/states.js'
import type { JobSummary, JobView } from '../core/views.js'
import type { Holdfast } from '../holdfast.js'

const LOOKED_AT_MAX = 10_000
const SHOWN_MAX = 20

/** What a job must be like to count. What is absent matches everything. */
export interface EnqueuedMatch<Input = unknown> {
  /** The payload, or a part of it: objects match when the keys given match. */
  readonly payload?: Partial<Input>
  readonly queue?: string
  readonly state?: JobState
  readonly priority?: number
  /** Tags it must have, among others. */
  readonly tags?: readonly string[]
  /** How many jobs there must be, exactly. Default: at least one. */
  readonly count?: number
}

/**
 * Resolves with the jobs of this definition that match, oldest first; rejects with an AssertionError that lists what was
 * enqueued when there are none, or not as many as `count` says.
 */
export async function assertEnqueued<Input>(
  holdfast: Holdfast,
  job: JobDefinition<Input, unknown> | string,
  match: EnqueuedMatch<NoInfer<Input>> = {},
): Promise<readonly JobView[]> {
  checkKeys('assertEnqueued', match, ['payload', 'queue', 'state', 'priority', 'tags', 'count'])
  const { type } = startingTerms(job as JobTarget)
  const { all, found } = await look(holdfast, type, match as EnqueuedMatch)
  const { count } = match
  if (count === undefined ? found.length > 0 : found.length === count) return found
  const wanted = count === undefined ? 'a job' : `exactly ${count} jobs`
  const got = found.length === 0 ? 'none' : String(found.length)
  throw new AssertionError({
    message: `expected ${wanted} "${type}"${showMatch(match)} to be enqueued, found ${got}\n${await listJobs(holdfast, all)}`,
    actual: found.length,
    expected: count ?? 1,
    operator: 'assertEnqueued',
  })
}

/** Rejects with an AssertionError when a job of this definition that matches was enqueued. */
export async function assertNotEnqueued<Input>(
  holdfast: Holdfast,
  job: JobDefinition<Input, unknown> | string,
  match: Omit<EnqueuedMatch<NoInfer<Input>>, 'count'> = {},
): Promise<void> {
  await assertEnqueued(holdfast, job, { ...match, count: 0 })
}

async function look(
  holdfast: Holdfast,
  type: string,
  match: EnqueuedMatch,
): Promise<{ readonly all: readonly JobSummary[]; readonly found: readonly JobView[] }> {
  const all: JobSummary[] = []
  let cursor: string | null = null
  do {
    const page = await holdfast.list({ limit: 200, cursor })
    all.unshift(...[...page.jobs].reverse())
    cursor = page.cursor
  } while (cursor !== null && all.length < LOOKED_AT_MAX)
  const found: JobView[] = []
  for (const { id } of all.filter((job) => job.type === type)) {
    const job = await holdfast.get(id)
    if (job !== null && isMatch(job, match)) found.push(job)
  }
  return { all, found }
}

function isMatch(job: JobView, { payload, queue, state, priority, tags = [] }: EnqueuedMatch): boolean {
  if (queue !== undefined && job.queue !== queue) return false
  if (state !== undefined && job.state !== state) return false
  if (priority !== undefined && job.priority !== priority) return false
  if (!tags.every((tag) => job.tags.includes(tag))) return false
  return payload === undefined || contains(job.payload, payload)
}

/** True when `actual` is `expected`, or an object or array with everything in it that `expected` has. */
function contains(actual: unknown, expected: unknown): boolean {
  if (typeof expected !== 'object' || expected === null) return Object.is(actual, expected)
  if (typeof actual !== 'object' || actual === null || Array.isArray(actual) !== Array.isArray(expected)) return false
  if (Array.isArray(expected) && (actual as unknown[]).length !== expected.length) return false
  return Object.entries(expected).every(
    ([key, value]) => Object.hasOwn(actual, key) && contains((actual as Record<string, unknown>)[key], value),
  )
}

function showMatch({ count: _, ...match }: EnqueuedMatch): string {
  return Object.keys(match).length === 0 ? '' : ` like ${JSON.stringify(match)}`
}

async function listJobs(holdfast: Holdfast, all: readonly JobSummary[]): Promise<string> {
  if (all.length === 0) return 'nothing was enqueued'
  const lines: string[] = []
  for (const { id } of all.slice(0, SHOWN_MAX)) {
    const job = await holdfast.get(id)
    if (job === null) continue
    lines.push(`  ${job.type} in ${job.queue}, ${job.state}: ${JSON.stringify(job.payload).slice(0, 200)}`)
  }
  if (all.length > SHOWN_MAX) lines.push(`  and ${all.length - SHOWN_MAX} more`)
  return `what there is, oldest first:\n${lines.join('\n')}`
}
