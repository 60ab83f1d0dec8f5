// Writes new jobs.

import type { Enqueued, NewJob } from '../../core/job.js'
import { keyHolder, takeKey } from './keys.js'
import { FRONT, type Job, type Memory, NORMAL, openQueue } from './memory.js'
import { putAfterParents } from './moves.js'

export function enqueue(memory: Memory, jobs: readonly NewJob[], nowMs: number): Enqueued[] {
  return jobs.map((job) => enqueueOne(memory, job, null, nowMs))
}

/** Writes one job; `schedule` is the tick it is made for, or null. */
export function enqueueOne(memory: Memory, newJob: NewJob, schedule: Job['schedule'], nowMs: number): Enqueued {
  const { id, queue, after } = newJob
  const known = memory.jobs.get(id)
  // The call is a repetition after a lost answer, whatever the job has become since.
  if (known !== undefined) return { id, created: true, state: known.state }

  const holder = keyHolder(memory, newJob, nowMs)
  if (holder !== null) {
    // A key that lasts for a time can outlive its job; only finished ones are pruned.
    return { id: holder.jobId, created: false, state: memory.jobs.get(holder.jobId)?.state ?? 'succeeded' }
  }

  const unknownParent = after.find((parent) => !memory.jobs.has(parent))
  if (unknownParent !== undefined) return { id, unknownParent }

  const job = blankJob(newJob, schedule, nowMs)
  memory.jobs.set(id, job)
  openQueue(memory, queue)
  takeKey(memory, job, nowMs)
  // A tick has waited for its time like a timed job. A job that comes after none has no parent to wait for.
  putAfterParents(memory, job, schedule === null ? NORMAL : FRONT, nowMs)
  return { id, created: true, state: job.state }
}

function blankJob(newJob: NewJob, schedule: Job['schedule'], nowMs: number): Job {
  return {
    facts: structuredClone(newJob),
    createdAtMs: nowMs,
    schedule,
    state: 'blocked',
    runAtMs: runAtMs(newJob.when, nowMs),
    lane: NORMAL,
    position: 0,
    readySinceMs: 0,
    attempt: 0,
    crashes: 0,
    fence: 0,
    lease: null,
    ending: null,
    attempts: [],
    logs: [],
    progress: null,
    replays: [],
  }
}

function runAtMs(when: NewJob['when'], nowMs: number): number | null {
  if (when === null) return null
  return 'runAtMs' in when ? when.runAtMs : nowMs + when.delayMs
}
