// Writes new jobs.

import type { Enqueued, NewJob } from '../../core/job.js'
import type { ClaimOnEnqueue } from '../../core/offer.js'
import { claimOne } from './claim.js'
import { copyOf } from './copy.js'
import { keyHolder, takeKey } from './keys.js'
import { entryOf, FRONT, type Job, type Memory, NORMAL, openQueue } from './memory.js'
import { goOn, put, putReady, putTimed } from './moves.js'

export function enqueue(
  memory: Memory,
  jobs: readonly NewJob[],
  { claim, nowMs }: { readonly claim?: ClaimOnEnqueue | undefined; readonly nowMs: number },
): Enqueued[] {
  const fresh = new Set(jobs.slice(0, claim?.count ?? 0).filter(({ id }) => !memory.jobs.has(id)))
  // A job that is in the call twice is written once and answered alike.
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

type Written = { readonly id: string; readonly created: boolean } | Extract<Enqueued, { unknownParent: string }>

function write(memory: Memory, newJob: NewJob, schedule: Job['schedule'], nowMs: number): Written {
  const { id, queue, after } = newJob
  openQueue(memory, queue, nowMs)
  // A known job is sent again after a lost answer, whatever it has become since.
  if (memory.jobs.has(id)) return { id, created: true }
  const holder = keyHolder(memory, newJob, nowMs)
  if (holder !== null) return { id: holder.jobId, created: false }
  const unknownParent = after.find((parent) => !memory.jobs.has(parent))
  if (unknownParent !== undefined) return { id, unknownParent }

  const job = blankJob(newJob, schedule, nowMs)
  memory.jobs.set(id, job)
  takeKey(memory, job, nowMs)
  if (after.length > 0) put(memory, job)
  else if (job.runAtMs !== null && job.runAtMs > nowMs) putTimed(memory, job, 'scheduled', job.runAtMs)
  // A tick has waited for its time like a timed job.
  else putReady(memory, job, schedule === null ? NORMAL : FRONT, nowMs)
  return { id, created: true }
}

function withState(memory: Memory, answer: Written): Enqueued {
  if ('unknownParent' in answer) return answer
  // A key that lasts for a time can outlive its job; only finished ones are pruned.
  return { ...answer, state: memory.jobs.get(answer.id)?.state ?? 'succeeded' }
}

function blankJob(newJob: NewJob, schedule: Job['schedule'], nowMs: number): Job {
  return {
    facts: copyOf(newJob),
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
    requeues: [],
  }
}

function runAtMs(when: NewJob['when'], nowMs: number): number | null {
  if (when === null) return null
  return 'runAtMs' in when ? when.runAtMs : nowMs + when.delayMs
}
