// How a job gets from one place to another. Every change of state goes through here, so that a job is always in the one
// place of its state.

import { isFinished } from '../../core/states.js'
import { compareReady, hold, unhold } from './held.js'
import { freeKey } from './keys.js'
import { blockersOf, entryOf, FRONT, type Job, type JobEnding, type Lane, LIFO, type Memory, NORMAL } from './memory.js'
import { compareText, type Ordered, ordered } from './ordered.js'

/** Takes a job out of the place of its state. It must be put somewhere before the call ends. */
export function take(memory: Memory, job: Job): void {
  if (job.state === 'ready' && job.facts.flow !== undefined) unhold(memory, job)
  else if (job.state === 'ready') readyList(memory, job.facts.queue).remove(job)
  else if (job.state === 'running') memory.running.remove(job)
  else if (job.state === 'scheduled' || job.state === 'retrying') memory.timed.remove(job)
  else if (job.state === 'blocked') for (const id of blockersOf(job)) memory.blocked.get(id)?.delete(job)
}

/** Puts a job that is in no place into the one of its state. */
export function put(memory: Memory, job: Job): void {
  if (job.state === 'ready' && job.facts.flow !== undefined) hold(memory, job)
  else if (job.state === 'ready') readyList(memory, job.facts.queue).add(job)
  else if (job.state === 'running') memory.running.add(job)
  else if (job.state === 'scheduled' || job.state === 'retrying') memory.timed.add(job)
  else if (job.state === 'blocked')
    for (const id of blockersOf(job)) entryOf(memory.blocked, id, () => new Set()).add(job)
}

function readyList(memory: Memory, queue: string): Ordered<Job> {
  return entryOf(memory.ready, queue, () => ordered(compareReady))
}

/** Makes a taken job ready, behind all others of its lane; in that of the newest before them. */
export function putReady(memory: Memory, job: Job, lane: Lane, nowMs: number): void {
  job.state = 'ready'
  job.runAtMs = null
  job.lane = lane
  memory.lastPosition++
  job.position = lane === LIFO ? -memory.lastPosition : memory.lastPosition
  job.readySinceMs = nowMs
  put(memory, job)
  memory.woken.add(job.facts.queue)
}

/** Lets a taken job wait for a time. */
export function putTimed(memory: Memory, job: Job, state: 'scheduled' | 'retrying', runAtMs: number): void {
  job.state = state
  job.runAtMs = runAtMs
  put(memory, job)
}

/** Ends a taken job. Jobs that come after it are left to `unblock`. */
export function putFinished(
  memory: Memory,
  job: Job,
  state: 'succeeded' | 'dead' | 'cancelled',
  ending: Partial<JobEnding> & { readonly finishedAtMs: number },
): void {
  job.state = state
  job.runAtMs = null
  job.waitsOn = null
  job.ending = { startedAtMs: null, worker: null, result: null, reason: null, error: null, ...ending }
  freeKey(memory, job)
}

/** Lets the jobs that come after finished ones go on. */
export function unblock(memory: Memory, finishedIds: readonly string[], nowMs: number): void {
  const waiting = finishedIds.flatMap((id) => [...(memory.blocked.get(id) ?? [])])
  goOn(
    memory,
    waiting.map((job) => job.facts),
    nowMs,
  )
}

/** Moves the jobs that are no longer blocked, in the order of their ids. If one of them ends here, its own children follow. */
export function goOn(memory: Memory, candidates: readonly { readonly id: string }[], nowMs: number): void {
  const ids = [...new Set(candidates.map(({ id }) => id))].sort(compareText)
  const blocked = ids.map((id) => memory.jobs.get(id)).filter((job) => job?.state === 'blocked') as Job[]
  // All are checked before any of them moves, so one that ends here does not yet count as a finished parent of another.
  const verdicts = blocked.map((job) => ({ job, verdict: judge(memory, job) }))
  for (const { job, verdict } of verdicts) {
    if (verdict === 'waits') continue
    take(memory, job)
    const lane = job.waitsOn === null ? NORMAL : FRONT
    job.waitsOn = null
    if (verdict === 'ends') putFinished(memory, job, 'cancelled', { finishedAtMs: nowMs })
    else if (job.runAtMs !== null && job.runAtMs > nowMs) putTimed(memory, job, 'scheduled', job.runAtMs)
    else putReady(memory, job, lane, nowMs)
  }
  const ended = blocked.filter((job) => job.state === 'cancelled').map((job) => job.facts.id)
  if (ended.length > 0) unblock(memory, ended, nowMs)
}

function judge(memory: Memory, job: Job): 'waits' | 'goes on' | 'ends' {
  // A parent that is gone was pruned, and only finished jobs are; a bad end would have ended this job immediately.
  const { facts, waitsOn } = job
  const parents = blockersOf(job).map((id) => memory.jobs.get(id)?.state ?? 'succeeded')
  const hasBadEnd = parents.some((state) => state === 'dead' || state === 'cancelled')
  if (waitsOn?.wakesEarly === true && hasBadEnd) return 'goes on'
  if (waitsOn === null && hasBadEnd && facts.onParentDead === 'cancel') return 'ends'
  return parents.every(isFinished) ? 'goes on' : 'waits'
}
