// What operators do with dead jobs: requeue or discard them.

import type { CancelResult, RequeueResult } from '../../core/operator-store.js'
import { allows } from '../../core/states.js'
import { writeLine } from './audit.js'
import { keepsPlace } from './groups.js'
import { keyHolder, takeKey } from './keys.js'
import { type Memory, NORMAL } from './memory.js'
import { putFinished, putReady, unblock } from './moves.js'
import { compareText } from './ordered.js'

/** Requeues dead jobs, the oldest first: of several with one key the oldest gets it. */
export function requeue(memory: Memory, ids: readonly string[], by: string, nowMs: number): RequeueResult[] {
  const results = new Map<string, RequeueResult>()
  for (const id of [...new Set(ids)].sort(compareText)) results.set(id, requeueOne(memory, id, by, nowMs))
  return ids.map((id) => results.get(id)!)
}

function requeueOne(memory: Memory, id: string, by: string, nowMs: number): RequeueResult {
  const job = memory.jobs.get(id)
  if (job === undefined) return { id, result: 'missing' }
  if (!allows(job.state, 'requeue')) return { id, result: 'refused', state: job.state }
  const holder = keyHolder(memory, job.facts, nowMs)
  if (holder !== null && holder.jobId !== id) {
    return { id, result: 'refused', state: job.state, heldBy: holder.jobId }
  }
  takeKey(memory, job, nowMs)
  job.attempt = 0
  job.crashes = 0
  job.ending = null
  const requeues = job.requeues.length + 1
  job.requeues.push({ number: requeues, at: new Date(nowMs), by })
  if (!keepsPlace(memory, job)) job.order = ++memory.lastPosition
  putReady(memory, job, NORMAL, nowMs)
  writeLine(memory, { actor: by, action: 'requeue', job: id }, nowMs)
  return { id, result: 'requeued', requeues }
}

export function discard(memory: Memory, ids: readonly string[], by: string, nowMs: number): CancelResult[] {
  const results = ids.map((id): CancelResult => {
    const job = memory.jobs.get(id)
    if (job === undefined) return { id, result: 'missing' }
    if (job.state === 'cancelled') return { id, result: 'cancelled' }
    if (!allows(job.state, 'discard')) return { id, result: 'refused', state: job.state }
    putFinished(memory, job, 'cancelled', { ...job.ending, finishedAtMs: nowMs, reason: null })
    writeLine(memory, { actor: by, action: 'discard', job: id }, nowMs)
    return { id, result: 'cancelled' }
  })
  unblock(memory, ids, nowMs)
  return results
}
