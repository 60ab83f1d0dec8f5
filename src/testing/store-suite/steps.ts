// Steps many facts take: bring a job somewhere, and look where things stand.

import type { ClaimBatch } from '../../core/flow/contract.js'
import type { ClaimedJob, NewJob, SettledJob } from '../../core/job.js'
import type { JobFilter } from '../../core/job-filter.js'
import { BATCH_MAX, type ClaimRequest } from '../../core/job-store.js'
import { PAGE_MAX } from '../../core/operator-store.js'
import type { JobState } from '../../core/states.js'
import type { Store } from '../../core/store.js'
import type { JobView } from '../../core/views.js'
import { cancelled, dead, LEASE_MS, MINUTE_MS, newJob, QUEUE, retrying, succeeded, WORKER } from './samples.js'

/** Enqueues a job and returns its id. */
export async function enqueueJob(store: Store, changes: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(changes)
  await store.enqueue([job])
  return job.id
}

/** Enqueues jobs one call after the other and returns their ids. */
export async function enqueueEach(store: Store, changes: readonly Partial<NewJob>[]): Promise<string[]> {
  const ids: string[] = []
  for (const each of changes) ids.push(await enqueueJob(store, each))
  return ids
}

/** What a claim of one queue asks for. */
export interface ClaimSteps {
  readonly queue?: string
  readonly limit?: number
  readonly ahead?: number
  readonly types?: readonly string[]
  readonly batches?: readonly ClaimBatch[]
  readonly worker?: string
  readonly leaseMs?: number
}

/** The claim that these steps ask for. */
export function claimRequest(steps: ClaimSteps = {}): ClaimRequest {
  const {
    queue = QUEUE,
    limit = BATCH_MAX,
    ahead,
    types = null,
    batches = [],
    worker = WORKER,
    leaseMs = LEASE_MS,
  } = steps
  return {
    queues: [{ queue, limit, ...(ahead === undefined ? {} : { ahead }) }],
    types,
    worker,
    leaseMs,
    ...(batches.length === 0 ? {} : { batches }),
  }
}

/** Claims from one queue, everything it gives unless a limit is set. */
export async function claimJobs(store: Store, steps: ClaimSteps = {}): Promise<readonly ClaimedJob[]> {
  return (await store.claim(claimRequest(steps))).jobs
}

/** The ids of what a claim gives, in its order. */
export async function claimIds(store: Store, steps: ClaimSteps = {}): Promise<string[]> {
  return (await claimJobs(store, steps)).map(({ id }) => id)
}

/** Claims the one job that comes next; fails when there is none. */
export async function claimJob(store: Store, steps: ClaimSteps = {}): Promise<ClaimedJob> {
  const [job] = await claimJobs(store, { ...steps, limit: 1 })
  if (job === undefined) throw new Error(`queue ${steps.queue ?? QUEUE} gave no job to claim`)
  return job
}

/** Enqueues a job and claims it; fails when another one comes before it. */
export async function startJob(
  store: Store,
  changes: Partial<NewJob> = {},
  steps: ClaimSteps = {},
): Promise<ClaimedJob> {
  const id = await enqueueJob(store, changes)
  const job = await claimJob(store, { ...steps, queue: changes.queue ?? QUEUE })
  if (job.id !== id) throw new Error(`job ${job.id} was claimed before ${id}: enqueue it later or in another queue`)
  return job
}

/** Claims the job that comes next and settles it as `settle` says. */
export async function runNext(store: Store, settle: (job: ClaimedJob) => SettledJob): Promise<string> {
  const job = await claimJob(store)
  await store.settle([settle(job)])
  return job.id
}

/** Brings a new job into a state, in the way jobs get there. No other job of its queue may be ready. */
export async function jobIn(store: Store, state: JobState, changes: Partial<NewJob> = {}): Promise<string> {
  if (state === 'ready') return enqueueJob(store, changes)
  if (state === 'scheduled') return enqueueJob(store, { when: { delayMs: MINUTE_MS }, ...changes })
  if (state === 'blocked') return enqueueJob(store, { after: [await parentOf(store)], ...changes })
  const job = await startJob(store, changes)
  if (state === 'retrying') await store.settle([retrying(job, MINUTE_MS)])
  if (state === 'succeeded') await store.settle([succeeded(job)])
  if (state === 'dead') await store.settle([dead(job)])
  if (state === 'cancelled') await store.settle([cancelled(job)])
  return job.id
}

// A parent in a queue of its own is never in a fact's way.
function parentOf(store: Store): Promise<string> {
  return enqueueJob(store, { queue: 'parents' })
}

/** The job as shown; fails when it does not exist. */
export async function viewOf(store: Store, id: string): Promise<JobView> {
  const view = await store.get(id)
  if (view === null) throw new Error(`job ${id} does not exist`)
  return view
}

export async function stateOf(store: Store, id: string): Promise<JobState> {
  return (await viewOf(store, id)).state
}

export async function statesOf(store: Store, ids: readonly string[]): Promise<JobState[]> {
  return Promise.all(ids.map((id) => stateOf(store, id)))
}

/** The ids of all jobs that match, page after page. */
export async function listIds(store: Store, filter: JobFilter = {}, limit: number = PAGE_MAX): Promise<string[]> {
  const ids: string[] = []
  let before: string | null = null
  do {
    const page = await store.list({ filter, limit, before })
    ids.push(...page.jobs.map(({ id }) => id))
    before = page.next
  } while (before !== null)
  return ids
}

/** Prunes until all is gone that may go: one call drops a bounded number of days, and leaves those others are busy with, such as a
 *  server's own upkeep. So while nothing goes at all, it is asked again for a while. */
export async function pruneAll(store: Store, retentionMs: number): Promise<{ days: string[]; rows: number }> {
  const all = { days: [] as string[], rows: 0 }
  let isDone = false
  for (let call = 0; call < 5 || (call < 25 && all.days.length === 0) || (call < 200 && !isDone); call++) {
    const pruned = await store.prune({ retentionMs })
    all.days.push(...pruned.days)
    all.rows += pruned.rows
    isDone = pruned.isDone
  }
  return all
}

/** Everything a store shows, for saying that a call changed nothing. */
export async function everything(store: Store): Promise<unknown> {
  const ids = await listIds(store)
  return {
    jobs: await Promise.all(ids.map((id) => viewOf(store, id))),
    queues: await store.queues(),
    schedules: await store.schedules(),
    stats: await store.stats(null),
    workers: await store.workers(),
  }
}

/** The code a call fails with, or null when it succeeds. */
export async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => null,
    (error: unknown) => (error as { code?: unknown }).code,
  )
}
