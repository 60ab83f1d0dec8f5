// A batch: many jobs, and one more that runs when all of them have ended, however they did. Jobs of a type of its own count the ends, a hundred each, and
// others those counts, so that nothing waits for more than a hundred and no row is written by all. ◄── client.ts

import { checkId, checkKeys, checkName } from '../core/check.js'
import type { Handler, JobContext, JobDefinition } from '../core/definition.js'
import { invalidOption } from '../core/errors.js'
import { given } from '../core/given.js'
import { BATCH_MAX, type Queryable } from '../core/job-store.js'
import { defineJob } from './define-job.js'
import type { EnqueueEntries, EntryOptions } from './enqueue-many.js'
import type { EnqueueOptions } from './enqueue-options.js'
import type { JobHandle } from './job-handle.js'
import type { JobTarget } from './prepare.js'

/** How many ends one job counts: as many as it may come after. */
const FAN_IN = 100
const JOBS_MAX = 1_000_000

/** How the jobs of a batch ended. */
export interface BatchEnd {
  readonly jobs: number
  readonly succeeded: number
  readonly dead: number
  readonly cancelled: number
}

/** The job behind a batch. */
export type BatchCallback = readonly [
  job: JobTarget,
  payload: unknown,
  options?: Omit<EntryOptions, 'after' | 'onParentDead'>,
]

export interface EnqueueBatchOptions {
  /** The job that runs when all others have ended. `ctx.parentResults(batchEnd)` in its handler gives how they did. */
  readonly onEnd: BatchCallback
  /** The id that the batch is made under: the same call with the same id makes it once, and goes on where the first one was cut off. In a handler give
   *  `ctx.id`. Default a new one. Not with `tx`. */
  readonly id?: string
  /** The queue of the jobs that count. Default that of `onEnd`. */
  readonly queue?: string
  readonly tx?: Queryable
}

/** What a job that counts is given: how many jobs are behind each that it comes after, or null where those are the jobs of the batch. */
interface BatchCount {
  readonly below: readonly number[] | null
}

/** The type of the jobs that count. Its results are read with `ctx.parentResults(batchEnd)`. */
export const batchEnd: JobDefinition<BatchCount, BatchCount, BatchEnd, BatchEnd> = defineJob<BatchCount, BatchEnd>(
  'holdfast.batch',
)

/** Counts the ends of batches: one worker of the queue of `onEnd` must have it among its handlers. */
export const batchHandler: Handler = batchEnd.handle(countEnds)

async function countEnds({ below }: BatchCount, ctx: JobContext): Promise<BatchEnd> {
  const all = { jobs: 0, succeeded: 0, dead: 0, cancelled: 0 }
  for (const [index, end] of (await ctx.parentEnds()).entries()) {
    all.jobs += below?.[index] ?? 1
    // One that was pruned had succeeded long ago.
    if (below === null) all[end?.state ?? 'succeeded']++
    // Of a count that an operator cancelled only the number is known.
    const counted = below === null ? null : (end?.result as BatchEnd | null)
    if (counted == null) continue
    for (const state of ['succeeded', 'dead', 'cancelled'] as const) all[state] += counted[state]
  }
  return all
}

type BatchEntry = readonly [job: JobTarget, payload: unknown, options?: EntryOptions]

export interface BatchDeps {
  nextId(): string
  enqueueMany(entries: readonly BatchEntry[], options: { readonly tx?: Queryable }): Promise<readonly JobHandle[]>
  enqueue(job: JobTarget, payload: unknown, options: EnqueueOptions): Promise<JobHandle>
}

/** Enqueues the jobs of a call (entries and options, or one job with payloads and options) and what counts their ends. Resolves with the job
 *  behind the batch when all of it is durable. */
export async function enqueueBatch(
  deps: BatchDeps,
  first: JobTarget | EnqueueEntries<readonly unknown[]>,
  second: readonly unknown[] | EnqueueBatchOptions,
  third: EnqueueBatchOptions | undefined,
): Promise<JobHandle> {
  const [entries, options] = batchOf(first, second, third)
  const { onEnd, id, queue, tx } = checkBatch(entries, options)
  const together = given({ tx })
  // Names make the ids: what is enqueued again is the same job. In a transaction all of it is there, or nothing.
  const batch = id ?? deps.nextId()
  const named = (name: string) => (tx === undefined ? { enqueuedBy: batch, child: name } : {})
  const enqueueAll = async (all: readonly BatchEntry[]): Promise<string[]> => {
    const ids: string[] = []
    for (let from = 0; from < all.length; from += BATCH_MAX) {
      const handles = await deps.enqueueMany(all.slice(from, from + BATCH_MAX), together)
      for (const handle of handles) ids.push(handle.id)
    }
    return ids
  }
  let level = await enqueueAll(
    entries.map(([job, payload, own], at) => [job, payload, { ...own, ...named(`job ${at}`) }]),
  )
  let sizes: readonly number[] | null = null
  for (let depth = 1; depth === 1 || level.length > 1; depth++) {
    const counts: BatchEntry[] = []
    const behind: number[] = []
    for (let from = 0; from < Math.max(1, level.length); from += FAN_IN) {
      const after = level.slice(from, from + FAN_IN)
      const below = sizes?.slice(from, from + FAN_IN) ?? null
      behind.push(below === null ? after.length : below.reduce((sum, size) => sum + size, 0))
      const terms = { ...given({ queue }), after, onParentDead: 'run', ...named(`count ${depth} ${from}`) } as const
      counts.push([batchEnd as JobTarget, { below }, terms])
    }
    level = await enqueueAll(counts)
    sizes = behind
  }
  const [job, payload, own] = onEnd
  const terms = { ...own, after: level[0]!, onParentDead: 'run', ...named('end'), ...together } as const
  return deps.enqueue(job, payload, terms)
}

function batchOf(
  first: JobTarget | EnqueueEntries<readonly unknown[]>,
  second: readonly unknown[] | EnqueueBatchOptions,
  third: EnqueueBatchOptions | undefined,
): [readonly BatchEntry[], EnqueueBatchOptions] {
  if (Array.isArray(first)) return [first as readonly BatchEntry[], second as EnqueueBatchOptions]
  if (!Array.isArray(second)) throw invalidOption('enqueueBatch takes an array of payloads', second)
  return [second.map((payload: unknown): BatchEntry => [first as JobTarget, payload]), third as EnqueueBatchOptions]
}

function checkBatch(entries: readonly BatchEntry[], options: EnqueueBatchOptions) {
  checkKeys('enqueueBatch', options, ['onEnd', 'id', 'queue', 'tx'])
  const { onEnd, id, tx } = options
  if (!Array.isArray(entries)) throw invalidOption('enqueueBatch takes an array of jobs', entries)
  if (entries.length > JOBS_MAX) {
    throw invalidOption(`a batch has at most ${JOBS_MAX} jobs, got ${entries.length}: make several`)
  }
  if (!Array.isArray(onEnd) || onEnd.length < 2 || onEnd.length > 3) {
    throw invalidOption('enqueueBatch: onEnd must be [definition, payload, options?]', onEnd)
  }
  for (const entry of [...entries, onEnd] as readonly unknown[]) {
    if (!Array.isArray(entry)) throw invalidOption('each job of a batch must be [definition, payload, options?]', entry)
    const own: unknown = entry[2]
    if (typeof own !== 'object' || own === null) continue
    const taken = ['child', 'enqueuedBy', 'tx'].find((name) => name in own)
    if (taken !== undefined) throw invalidOption(`${taken} belongs to the batch as a whole: leave it out of its jobs`)
  }
  const [target, , own] = onEnd as readonly [JobTarget | null, unknown, EnqueueOptions?]
  if (own?.after !== undefined || own?.onParentDead !== undefined) {
    throw invalidOption(
      'the job behind a batch comes after its jobs, however they ended: leave out after and onParentDead',
    )
  }
  if (id !== undefined && tx !== undefined) {
    throw invalidOption('enqueueBatch takes an id or a tx: what a transaction wrote is there as a whole, or not at all')
  }
  const queue = options.queue ?? own?.queue ?? (typeof target === 'string' ? undefined : target?.queue)
  return {
    ...{ onEnd: onEnd as BatchCallback, id: id === undefined ? undefined : checkId('id', id), tx },
    queue: queue === undefined ? undefined : checkName('queue', queue),
  }
}
