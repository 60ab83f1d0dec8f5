// Writes new jobs.

import type { Enqueued, NewJob } from '../../core/job.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import { blankJob } from './blank-job.js'
import { claimOne } from './claim.js'
import { fullRefusal, refusalOf, trackFor } from './held.js'
import { keyHolder, takeKey } from './keys.js'
import { entryOf, FRONT, type Job, LIFO, type Memory, NORMAL, openQueue } from './memory.js'
import { goOn, put, putReady, putTimed } from './moves.js'
import { replaceHolder } from './replace.js'

export function enqueue(
  memory: Memory,
  jobs: readonly NewJob[],
  { claim, nowMs }: { readonly claim?: ClaimOnEnqueue | undefined; readonly nowMs: number },
): Enqueued[] {
  const fresh = new Set(jobs.slice(0, claim?.count ?? 0).filter(({ id }) => !memory.jobs.has(id)))
  // A job that is in the call twice is written once, and both get the same answer.
  const written = new Map<string, Written>()
  const answers = jobs.map((job) => entryOf(written, job.id, () => write(memory, job, null, nowMs)))
  // A job may come after others of its batch, so none goes on before all are written.
  goOn(memory, jobs, nowMs)
  const states = answers.map((answer, index): Enqueued => {
    const job = jobs[index]!
    const claimed = claim !== undefined && fresh.has(job) ? claimOne(memory, job.id, claim, nowMs) : null
    return claimed === null ? withState(memory, answer) : { id: job.id, created: true, state: 'running', claimed }
  })
  // Nobody needs to be woken for jobs that are taken already.
  const isAllTaken = jobs.length > 0 && states.every((answer) => 'claimed' in answer)
  if (isAllTaken) for (const { queue } of jobs) memory.woken.delete(queue)
  return states
}

/** Writes the job of a schedule's tick. */
export function enqueueTick(memory: Memory, job: NewJob, schedule: Job['schedule'], nowMs: number): Enqueued {
  const answer = write(memory, job, schedule, nowMs)
  goOn(memory, [job], nowMs)
  return withState(memory, answer)
}

type Written =
  | { readonly id: string; readonly created: boolean; readonly replaced?: true }
  | Extract<Enqueued, { unknownParent: string } | { refused: object }>

function write(memory: Memory, newJob: NewJob, schedule: Job['schedule'], nowMs: number): Written {
  const { id, queue, after } = newJob
  openQueue(memory, queue, nowMs)
  // The job exists: the call was repeated after a lost answer. Its current state does not matter.
  if (memory.jobs.has(id)) return { id, created: true }
  const holder = keyHolder(memory, newJob, nowMs)
  if (holder !== null) {
    const replaced = newJob.replace === undefined ? null : replaceHolder(memory, holder, newJob, nowMs)
    return replaced ?? { id: holder.jobId, created: false }
  }
  const unknownParent = after.find((parent) => !memory.jobs.has(parent))
  if (unknownParent !== undefined) return { id, unknownParent }
  // A tick is never too many: its schedule could not try again.
  const refused = refusalOf(memory, newJob) ?? (schedule === null ? fullRefusal(memory, newJob) : null)
  if (refused !== null) return { id, refused }

  const job = blankJob(memory, newJob, schedule, nowMs)
  if (newJob.flow !== undefined) trackFor(memory, queue, newJob.flow)
  memory.jobs.set(id, job)
  takeKey(memory, job, nowMs)
  if (after.length > 0) put(memory, job)
  else if (job.runAtMs !== null && job.runAtMs > nowMs) putTimed(memory, job, 'scheduled', job.runAtMs)
  // A tick has waited for its time like a timed job.
  else putReady(memory, job, schedule === null ? (newJob.lifo ? LIFO : NORMAL) : FRONT, nowMs)
  return { id, created: true }
}

function withState(memory: Memory, answer: Written): Enqueued {
  if (!('created' in answer)) return answer
  // A key that lasts for a time can outlive its job; only finished ones are pruned.
  return { ...answer, state: memory.jobs.get(answer.id)?.state ?? 'succeeded' }
}
