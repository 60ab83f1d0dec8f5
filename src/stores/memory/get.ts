// Reads one job with its attempts, logs and progress.

import type { StoredError } from '../../core/json.js'
import { stepViewOf } from '../../core/kept/kept.js'
import { resolveLimits } from '../../core/limits.js'
import type { JobSummary, JobView } from '../../core/views.js'
import { waitOf } from './kept.js'
import type { Job, Memory } from './memory.js'

export function get(memory: Memory, id: string): JobView | null {
  const job = memory.jobs.get(id)
  return job === undefined ? null : viewOf(memory, job)
}

/** A job with everything that is shown of it. */
export function viewOf(memory: Memory, job: Job): JobView {
  return {
    ...summaryOf(memory, job),
    payload: parse(job.facts.payload),
    result: parse(job.ending?.result ?? null),
    attempts: job.attempts,
    progress: parse(job.progress),
    logs: job.logs.map(({ atMs, text }) => ({ at: new Date(atMs), text })),
    requeues: job.requeues,
    ...(waitOf(job) === null ? {} : { wait: waitOf(job)! }),
    ...(job.kept.size === 0 ? {} : { steps: [...job.kept.values()].map(stepViewOf) }),
  }
}

function parse(json: string | null): unknown {
  return json === null ? null : JSON.parse(json)
}

/** A job as lists show it. */
export function summaryOf(memory: Memory, job: Job): JobSummary {
  const { facts, lease, ending, schedule } = job
  return {
    id: facts.id,
    type: facts.type,
    queue: facts.queue,
    state: job.state,
    version: facts.version,
    priority: facts.priority,
    attempt: job.attempt,
    crashes: job.crashes,
    maxAttempts: resolveLimits(facts.limits, memory.queues.get(facts.queue)?.settings.limits).maxAttempts,
    runAt: date(job.runAtMs),
    createdAt: new Date(job.createdAtMs),
    startedAt: date(lease?.claimedAtMs ?? ending?.startedAtMs ?? null),
    finishedAt: date(ending?.finishedAtMs ?? null),
    reason: ending?.reason ?? null,
    error: lastError(job),
    worker: lease?.worker ?? ending?.worker ?? null,
    leasedUntil: date(lease?.leasedUntilMs ?? null),
    cancelRequested: lease?.cancelRequested ?? false,
    tags: facts.tags,
    idempotencyKey: facts.idempotencyKey?.key ?? null,
    after: facts.after,
    onParentDead: facts.onParentDead,
    schedule: schedule === null ? null : { name: schedule.name, tick: new Date(schedule.tickMs) },
    ...(facts.enqueuedBy === undefined ? {} : { enqueuedBy: facts.enqueuedBy }),
    ...(facts.flow === undefined ? {} : { flow: facts.flow }),
  }
}

/** Why a job died, or why its last attempt failed. */
export function lastError(job: Job): StoredError | null {
  return job.ending?.error ?? job.attempts.at(-1)?.error ?? null
}

function date(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
