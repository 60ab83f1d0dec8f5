// Gives the payload of a new job to the one that has its key.

import type { ReplaceRule } from '../../core/flow/carried.js'
import type { FlowRefusal } from '../../core/flow/views.js'
import type { NewJob } from '../../core/job.js'
import { isFinished } from '../../core/states.js'
import { blankJob } from './blank-job.js'
import { copyOf } from './copy.js'
import { refusalOf, trackFor } from './held.js'
import { takeKeyNext } from './keys.js'
import type { HeldKey, Job, Memory } from './memory.js'
import { put, take } from './moves.js'

/** What the enqueue answers, or null when nobody takes the payload: the job that has the key has finished, and the key lasts for a time. */
export function replaceHolder(memory: Memory, held: HeldKey, newJob: NewJob, nowMs: number): Replaced | null {
  // The successor runs last, so the newest payload is for it.
  const current = [held.next, held.jobId]
    .map((id) => memory.jobs.get(id ?? ''))
    .find((job) => job && !isFinished(job.state))
  if (current === undefined) return null
  if (current.state !== 'running') return replacePayload(memory, current, newJob, nowMs)
  const refused = refusalOf(memory, newJob)
  if (refused !== null) return { id: newJob.id, refused }
  const job = blankJob(memory, { ...newJob, after: [current.facts.id], onParentDead: 'run' }, null, nowMs)
  if (newJob.flow !== undefined) trackFor(memory, newJob.queue, newJob.flow)
  memory.jobs.set(newJob.id, job)
  put(memory, job)
  takeKeyNext(memory, job)
  return { id: newJob.id, created: true }
}

type Replaced =
  | { readonly id: string; readonly created: boolean; readonly replaced?: true }
  | { readonly id: string; readonly refused: FlowRefusal }

function replacePayload(
  memory: Memory,
  job: Job,
  { payload, version, tags, trace, replace }: NewJob,
  nowMs: number,
): { readonly id: string; readonly created: false; readonly replaced: true } {
  take(memory, job)
  job.facts = { ...job.facts, ...copyOf({ payload, version, tags, trace }) }
  // One that became ready meanwhile, or waits for a retry, keeps its time.
  const waits = job.runAtMs !== null && (job.state === 'scheduled' || job.state === 'blocked')
  if (waits) job.runAtMs = Math.max(nowMs, nextTime(job, replace!, nowMs))
  put(memory, job)
  return { id: job.facts.id, created: false, replaced: true }
}

function nextTime({ createdAtMs }: Job, { waitMs, maxWaitMs }: ReplaceRule, nowMs: number): number {
  return Math.min(nowMs + waitMs, maxWaitMs === null ? Number.POSITIVE_INFINITY : createdAtMs + maxWaitMs)
}
