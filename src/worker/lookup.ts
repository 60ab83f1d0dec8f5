// What a handler may look up about its job: the results of the jobs it came after, the progress of the attempt before, and its children.

import type { ChildEnd, JobContext, JobDefinition } from '../core/definition.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import type { JobStore } from '../core/job-store.js'
import { readResult } from '../core/result.js'
import type { Ending } from '../core/views.js'
import type { Keeper } from './keeper.js'

type Connection = JobContext['holdfast']
type EnqueuedChild = Awaited<ReturnType<Connection['enqueue']>>

/** `ctx.parentResults`: one for each parent in order, read by the definitions given; null for a parent that has none. */
export async function parentResults(
  store: Pick<JobStore, 'endings'>,
  parents: readonly string[],
  jobs: JobDefinition | readonly JobDefinition[] | undefined,
): Promise<readonly unknown[]> {
  const definitions = definitionsFor(parents, jobs)
  if (parents.length === 0) return []
  const endings = new Map((await store.endings(parents)).map((ending) => [ending.id, ending]))
  return Promise.all(
    parents.map(async (id, index) => {
      const ending = endings.get(id)
      if (ending?.state !== 'succeeded' || ending.result === null) return null
      const stored: unknown = JSON.parse(ending.result)
      const job = definitions[index]
      return job === undefined ? stored : readResult(job, stored)
    }),
  )
}

/** `ctx.parentEnds`: how each of the jobs ended that it came after. */
export async function parentEnds(
  store: Pick<JobStore, 'endings'>,
  parents: readonly string[],
): Promise<readonly (ChildEnd | null)[]> {
  if (parents.length === 0) return []
  const ends = new Map((await store.endings(parents)).map((ending) => [ending.id, endOf(ending)]))
  return parents.map((id) => ends.get(id) ?? null)
}

/** An ending as handlers get it. */
function endOf({ id, state, result, error }: Ending): ChildEnd {
  return { id, state, result: result === null ? null : JSON.parse(result), error }
}

function definitionsFor(
  parents: readonly string[],
  jobs: JobDefinition | readonly JobDefinition[] | undefined,
): readonly (JobDefinition | undefined)[] {
  if (jobs === undefined) return []
  const list: readonly JobDefinition[] = Array.isArray(jobs) ? jobs : parents.map(() => jobs as JobDefinition)
  const wrong = list.find((job) => typeof job?.handle !== 'function')
  if (wrong !== undefined || (!Array.isArray(jobs) && typeof (jobs as JobDefinition)?.handle !== 'function')) {
    throw invalidOption('parentResults takes what defineJob(…) gives, or an array of those', wrong ?? jobs)
  }
  if (list.length === parents.length) return list
  throw invalidOption(
    `parentResults takes one definition for each of the ${parents.length} jobs it came after, in the order of \`after\`, got ${list.length}`,
  )
}

/** `ctx.lastProgress`: null in the first attempt, which has none before it. */
export async function lastProgress(
  store: JobStore,
  { id, attempt }: Pick<JobContext, 'id' | 'attempt'>,
): Promise<unknown> {
  if (attempt === 1) return null
  return (await store.get(id))?.progress ?? null
}

/** `ctx.enqueue` of a child with a name: the first attempt that gets there enqueues it. */
export async function enqueueChild(
  keeper: Keeper,
  holdfast: Pick<Connection, 'get' | 'wait'>,
  name: string,
  send: () => Promise<EnqueuedChild>,
): Promise<EnqueuedChild> {
  let sent: EnqueuedChild | null = null
  const id = await keeper.child(name, async () => {
    sent = await send()
    return sent.id
  })
  if (sent !== null) return sent
  const state = (await holdfast.get(id))?.state ?? 'succeeded'
  const wait: EnqueuedChild['wait'] = (options) => holdfast.wait(id, options)
  return { id, created: false, state, wait } as EnqueuedChild
}

/** What a handler gets that asks for its connection where it has none. */
export function noConnection(what: string, where: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `ctx.${what} cannot be used ${where}: connect() in the handler's own module, and enqueue with { enqueuedBy: ctx.id }`,
  )
}
