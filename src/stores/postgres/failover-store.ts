// A store that survives failovers: what it answers is remembered, and after a change of servers calls about leases wait until that was
// said again. ◄── store.ts · next: failover-memory.ts

import type { ClaimedJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import type { Failover } from './failover.js'
import type { FailoverMemory } from './failover-memory.js'

/** The same store, with a memory. */
export function withFailover(store: Store, failover: Failover, memory: FailoverMemory): Store {
  // A job that is not there may be about to be said again.
  const lookTwice = async <T>(look: () => Promise<T>): Promise<T> => {
    const found = await look()
    const said = failover.whenSaid()
    if (said === null) return found
    await said
    return look()
  }
  return {
    ...store,
    get: (id) => lookTwice(() => store.get(id)),
    endings: (ids) => lookTwice(() => store.endings(ids)),
    among: (ids, queues) => lookTwice(() => store.among(ids, queues)),
    async enqueue(jobs, request = {}) {
      const answers = await store.enqueue(jobs, request)
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
      if (request.tx !== undefined) return store.settle(jobs, request)
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
      if (fired.fired) memory.fired(request)
      return fired
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
      failover.stop()
      await store.close()
    },
  }
}
