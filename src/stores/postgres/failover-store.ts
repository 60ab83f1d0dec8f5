// A store that survives failovers: what it answers is remembered, and after a change of servers calls about leases wait until that was
// said again. ◄── store.ts · next: failover-memory.ts

import { isHoldfastError } from '../../core/errors.js'
import type { ClaimedJob, Enqueued, NewJob } from '../../core/job.js'
import type { EnqueueRequest } from '../../core/job-store.js'
import type { Store } from '../../core/store.js'
import type { Asked } from './asked-again.js'
import type { UnansweredJobs } from './enqueue-unanswered.js'
import type { Failover } from './failover.js'
import type { FailoverMemory } from './failover-memory.js'

/** How often a settlement in a handler's transaction is sent. Before each but the first, what may be missing is said again. */
const INSIDE_TRIES_MAX = 3

/** Enqueues jobs that had no answer before; null where the role may not, and nothing was written. */
export type EnqueueAgain = (jobs: readonly NewJob[], request: EnqueueRequest) => Promise<readonly Enqueued[] | null>

interface FailoverStoreParts {
  readonly failover: Failover
  readonly memory: FailoverMemory
  readonly unanswered: UnansweredJobs
  readonly enqueueAgain: EnqueueAgain
}

/** The same store, with a memory. */
export function withFailover(store: Store, { failover, memory, unanswered, enqueueAgain }: FailoverStoreParts): Store {
  // A job that is not there may be about to be said again.
  const lookTwice = async <T>(look: () => Promise<T>): Promise<T> => {
    const found = await look()
    const said = failover.whenSaid()
    if (said === null) return found
    await said
    return look()
  }
  // The caller's connection may lead to a new server that this process has not met. A lease that is lost there may only not be said yet.
  const settleInside: Store['settle'] = async (jobs, request) => {
    for (let tries = 1; ; tries++) {
      // This process may meet the new server while it settles there.
      const before = failover.epoch
      try {
        const results = await store.settle(jobs, request)
        const isLost = results.some(({ result }) => result === 'lost')
        if (!isLost || tries === INSIDE_TRIES_MAX || !(await failover.verify(before))) return results
      } catch (error) {
        // A connection of ours failed, not the handler's. It cannot begin its transaction again: the job would run again. Settling twice
        // under one lease changes nothing.
        if (!isHoldfastError(error) || !error.retryable || tries === INSIDE_TRIES_MAX) throw error
        await failover.verify(before)
      }
    }
  }
  const enqueue = async (jobs: readonly NewJob[], request: EnqueueRequest): Promise<readonly Enqueued[]> => {
    if (request.tx !== undefined) return store.enqueue(jobs, request)
    try {
      const again = unanswered.hasAny(jobs) ? await enqueueAgain(jobs, request) : null
      const answers = again ?? (await store.enqueue(jobs, request))
      unanswered.answered(jobs)
      return answers
    } catch (error) {
      if (isHoldfastError(error) && error.retryable) unanswered.add(jobs)
      throw error
    }
  }
  return {
    ...store,
    get: (id) => lookTwice(() => store.get(id)),
    endings: (ids) => lookTwice(() => store.endings(ids)),
    among: (ids, queues) => lookTwice(() => store.among(ids, queues)),
    // What rests makes no calls, so it would learn late of a new server.
    hears: () => memory.size.jobs === 0 && store.hears!(),
    async enqueue(jobs, request = {}) {
      // A key that a lost job has, or a parent that is not there yet, must be said first.
      if (jobs.some(({ idempotencyKey, after }) => idempotencyKey !== null || after.length > 0))
        await failover.whenSaid()
      const answers = await enqueue(jobs, request)
      if (request.tx !== undefined) memory.enqueuedInside(answers)
      else memory.enqueued(jobs, answers)
      if (request.claim !== undefined) {
        const claimed = answers.flatMap((answer): ClaimedJob[] => ('claimed' in answer ? [answer.claimed!] : []))
        memory.claimed(claimed, request.claim)
      }
      return answers
    },
    async claim(request) {
      // It does not wait: enqueues of this process would wait with it.
      if (failover.holdsBack(request.queues.map(({ queue }) => queue))) {
        return { jobs: [], nowMs: await store.now(), waitedMs: null }
      }
      const claim = await store.claim(request)
      memory.claimed(claim.jobs, request)
      return claim
    },
    async extend(leases, leaseMs) {
      await failover.whenSaid()
      return store.extend(leases, leaseMs)
    },
    async watch(leases) {
      await failover.whenSaid()
      return store.watch(leases)
    },
    async settle(jobs, request = {}) {
      if (request.tx !== undefined) {
        await failover.whenSaidInside()
        return settleInside(jobs, request)
      }
      await failover.whenSaid()
      const results = await store.settle(jobs, request)
      // What a rescue decides is decided again.
      if (request.onlyExpired !== true) memory.settled(jobs, results)
      return results
    },
    async expired(limit) {
      const found = await store.expired(limit)
      // A lease that looks expired may have been settled.
      return failover.holdsBack([]) ? { ...found, jobs: [] } : found
    },
    async due(limit, afterQueue) {
      const found = await store.due(limit, afterQueue)
      // A tick that looks due may have been fired.
      return failover.holdsBack([]) ? { ...found, schedules: [], nextDueMs: 250 } : found
    },
    async fire(request) {
      const fired = await store.fire(request)
      if (fired.fired) memory.fired(request, fired.jobs)
      return fired
    },
    async cancel(ids, by) {
      const results = await store.cancel(ids, by)
      const done = results.filter(({ result }) => result === 'cancelled' || result === 'asked')
      const atMs = Date.now()
      memory.asked(done.map(({ id, result }) => ({ kind: 'cancel', atMs, by, id, wasRunning: result === 'asked' })))
      return results
    },
    async requeue(ids, by) {
      const results = await store.requeue(ids, by)
      const atMs = Date.now()
      memory.asked(
        results.flatMap((one): Asked[] =>
          one.result === 'requeued' ? [{ kind: 'requeue', atMs, by, id: one.id, requeues: one.requeues }] : [],
        ),
      )
      return results
    },
    async discard(ids, by) {
      const results = await store.discard(ids, by)
      const done = results.filter(({ result }) => result === 'cancelled')
      const atMs = Date.now()
      memory.asked(done.map(({ id }) => ({ kind: 'discard', atMs, by, id })))
      return results
    },
    async delete(ids, by) {
      const results = await store.delete(ids, by)
      const done = results.filter(({ result }) => result === 'deleted').map(({ id }) => id)
      const atMs = Date.now()
      memory.deleted(done.map((id) => ({ kind: 'delete', atMs, by, id })))
      return results
    },
    async update(id, changes, by) {
      const answer = await store.update(id, changes, by)
      if (answer.result === 'updated') {
        memory.asked([{ kind: 'update', atMs: Date.now(), by, id, changes }])
      }
      return answer
    },
    async pause(queue, by) {
      await store.pause(queue, by)
      memory.asked([{ kind: 'queue', atMs: Date.now(), by, queue, call: 'pause' }])
    },
    async resume(queue, by) {
      await store.resume(queue, by)
      memory.asked([{ kind: 'queue', atMs: Date.now(), by, queue, call: 'resume' }])
    },
    beat(worker) {
      failover.worker(worker.id)
      return store.beat(worker)
    },
    leave(workerId) {
      failover.workerLeft(workerId)
      return store.leave(workerId)
    },
    reportTo: (emit) => failover.report(emit),
    async close() {
      await failover.stop()
      await store.close()
    },
  }
}
