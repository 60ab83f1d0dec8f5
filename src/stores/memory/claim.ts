// Leases ready jobs to a worker.

import type { FlowState } from '../../core/flow/views.js'
import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import { originOf } from '../../core/origin.js'
import { claimFlow } from './flow-claim.js'
import { hasFlow } from './held.js'
import type { Job, Memory } from './memory.js'
import { put, take } from './moves.js'

export function claim(memory: Memory, request: ClaimRequest, nowMs: number): Claim {
  const jobs: ClaimedJob[] = []
  let waitedMs: number | null = null
  // A queue that is listed twice gives its jobs where it is listed first.
  const amounts = new Map<string, { readonly limit: number; readonly ahead: number }>()
  for (const { queue, limit, ahead = 0 } of request.queues) {
    const sum = amounts.get(queue) ?? { limit: 0, ahead: 0 }
    amounts.set(queue, { limit: sum.limit + limit, ahead: sum.ahead + ahead })
  }
  const flow: FlowState[] = []
  const start = (job: Job) => {
    waitedMs = Math.max(waitedMs ?? 0, nowMs - job.readySinceMs)
    lease(memory, job, request, nowMs)
    jobs.push(claimedJob(memory, job))
  }
  const mark = (batch: readonly Job[]) => {
    const ids = new Set(batch.map(({ facts }) => facts.id))
    for (const [index, job] of jobs.entries()) if (ids.has(job.id)) jobs[index] = { ...job, batch: batch.length }
  }
  const { types, batches = [] } = request
  for (const [queue, { limit, ahead }] of amounts) {
    if (hasFlow(memory, queue))
      flow.push(claimFlow(memory, { queue, limit, ahead, types, batches, nowMs, start, mark }))
    else for (const job of firstReady(memory, queue, limit, types)) start(job)
  }
  return { jobs, nowMs, waitedMs, ...(flow.length === 0 ? {} : { flow }) }
}

/** Claims a job that was just written, unless it is not ready or its queue is paused. */
export function claimOne(
  memory: Memory,
  id: string,
  request: Pick<ClaimRequest, 'worker' | 'leaseMs'>,
  nowMs: number,
): ClaimedJob | null {
  const job = memory.jobs.get(id)
  if (job?.state !== 'ready' || memory.queues.get(job.facts.queue)?.paused) return null
  // Limits are kept by claims alone.
  if (hasFlow(memory, job.facts.queue)) return null
  lease(memory, job, request, nowMs)
  return claimedJob(memory, job)
}

function firstReady(memory: Memory, queue: string, limit: number, types: ClaimRequest['types']): Job[] {
  const found: Job[] = []
  if (memory.queues.get(queue)?.paused) return found
  for (const job of memory.ready.get(queue)?.values ?? []) {
    if (found.length >= limit) break
    if (types === null || types.includes(job.facts.type)) found.push(job)
  }
  return found
}

function lease(memory: Memory, job: Job, request: Pick<ClaimRequest, 'worker' | 'leaseMs'>, nowMs: number): void {
  take(memory, job)
  job.state = 'running'
  job.attempt += 1
  job.fence = Math.max(job.fence + 1, nowMs)
  job.lease = {
    worker: request.worker,
    claimedAtMs: nowMs,
    leasedUntilMs: nowMs + request.leaseMs,
    begun: false,
    cancelRequested: false,
  }
  put(memory, job)
}

function claimedJob(memory: Memory, job: Job): ClaimedJob {
  const { id, queue, type, payload, version, priority, limits, idempotencyKey, tags, trace, flow } = job.facts
  return {
    id,
    fence: job.fence,
    queue,
    type,
    payload,
    version,
    priority,
    attempt: job.attempt,
    crashes: job.crashes,
    createdAtMs: job.createdAtMs,
    limits,
    queueLimits: memory.queues.get(queue)?.settings.limits ?? {},
    idempotencyKey,
    tags,
    trace,
    ...(flow === undefined ? {} : { flow }),
    ...originOf({ after: job.facts.after, schedule: job.schedule, enqueuedBy: job.facts.enqueuedBy }),
  }
}
