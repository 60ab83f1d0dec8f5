// A crowd of workers on queues with every kind of limit, for tests in which connections die in the middle of calls.

import { setTimeout as sleep } from 'node:timers/promises'
import { NO_GROUP_SETTINGS, NO_LIMIT, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { newJob, retrying, succeeded } from '../../src/testing/store-suite/samples.js'

const GROUPS = 40
/** How many jobs of the shared limit, and of the queue `one`, may run. */
export const SHARED = 7
export const OF_QUEUE = 12
const LEASE_MS = 1_500
const QUEUES = ['one', 'two', 'ordered'] as const
const ATTEMPT = { payload: '{}', version: 1, priority: 0, tags: [], trace: null }

function someJob(index: number): NewJob {
  const queue = QUEUES[index % QUEUES.length]!
  const limits = index % 2 === 0 ? ['shared'] : []
  return newJob({ queue, flow: { group: index % 10 === 9 ? null : `g${index % GROUPS}`, limits, cost: 1 } })
}

export async function prepare(store: Store): Promise<void> {
  await store.setLimit('shared', { ...NO_LIMIT, concurrency: SHARED }, 'ada')
  const bounded = { ...NO_QUEUE_FLOW, groups: { ...NO_GROUP_SETTINGS, concurrency: 2 } }
  await store.setQueue('one', { limits: {}, flow: { ...bounded, concurrency: OF_QUEUE } }, 'ada')
  await store.setQueue('two', { limits: {}, flow: bounded }, 'ada')
  const ordered = { ...NO_QUEUE_FLOW, groups: { ...NO_GROUP_SETTINGS, ordered: true } }
  await store.setQueue('ordered', { limits: {}, flow: ordered }, 'ada')
}

/** Claims and settles until told to stop; some jobs retry once, some leases are left to run out. */
export async function work(store: Store, worker: string, isOver: () => boolean): Promise<void> {
  for (let round = 0; !isOver(); round++) {
    const queues = QUEUES.map((queue) => ({ queue, limit: 1 + (round % 8) }))
    const claimed = await store.claim({ queues, types: null, worker, leaseMs: LEASE_MS }).catch(() => null)
    if (claimed === null || claimed.jobs.length === 0) await sleep(5)
    const jobs = claimed?.jobs ?? []
    const kept = jobs.filter((job) => job.attempt > 1 || Number.parseInt(job.id.slice(-4), 16) % 40 !== 0)
    await sleep(round % 3)
    const outcomes = kept.map((job) =>
      job.attempt === 1 && Number.parseInt(job.id.slice(-3), 16) % 10 === 0 ? retrying(job, 20) : succeeded(job),
    )
    await store.settle(outcomes).catch(() => [])
  }
}

/** What upkeep does: due jobs become ready, expired leases are given back. */
export async function keepUp(store: Store, isOver: () => boolean, onRepaired: (groups: number) => void): Promise<void> {
  while (!isOver()) {
    const promotion = await store.promote(1_000).catch(() => null)
    onRepaired(promotion?.repaired ?? 0)
    const { jobs } = await store.expired(1_000).catch(() => ({ jobs: [] }))
    const rescued = jobs.map((job) => retrying({ ...job, ...ATTEMPT }, 1))
    if (rescued.length > 0) await store.settle(rescued, { onlyExpired: true }).catch(() => [])
    await sleep(20)
  }
}

/** Enqueues N jobs, each call until it is answered. */
export async function enqueueSurely(stores: readonly Store[], count: number): Promise<void> {
  for (let index = 0; index < count; ) {
    const batch = Array.from({ length: 25 }, () => someJob(index++))
    for (let tries = 0; tries < 50; tries++) {
      // Repeated with the same ids: what was written already is not written again.
      const answered = await stores[index % stores.length]!.enqueue(batch).then(
        () => true,
        () => false,
      )
      if (answered) break
    }
  }
}
