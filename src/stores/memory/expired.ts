// Lists leases that have run out.

import type { Expired, ExpiredJob } from '../../core/upkeep-store.js'
import type { Job, Memory } from './memory.js'

export function expired(memory: Memory, limit: number, nowMs: number): Expired {
  const jobs = memory.running.values.slice(0, limit).filter((job) => job.lease!.leasedUntilMs <= nowMs)
  // The store lives and dies with its process: there is no outage to come back from.
  return { jobs: jobs.map((job) => expiredJob(memory, job, nowMs)), nowMs, upMs: null }
}

function expiredJob(memory: Memory, job: Job, nowMs: number): ExpiredJob {
  const { id, queue, type, limits, idempotencyKey, flow } = job.facts
  const lease = job.lease!
  return {
    id,
    fence: job.fence,
    queue,
    type,
    worker: lease.worker,
    attempt: job.attempt,
    // One that got on under this lease is not what took its worker down: it is the first crash since.
    crashes: [...job.kept.values()].some(({ fence, isEnded }) => isEnded && fence === job.fence) ? 0 : job.crashes,
    createdAtMs: job.createdAtMs,
    expiredMs: nowMs - lease.leasedUntilMs,
    // Workers only say that they begin a job that crashed before; of any other it must be assumed.
    started: job.crashes === 0 || lease.begun,
    limits,
    queueLimits: memory.queues.get(queue)?.settings.limits ?? {},
    idempotencyKey,
    ...(flow === undefined ? {} : { flow }),
  }
}
