// What operators do with dead jobs: revive them, or discard them.

import type { CancelResult, RequeueResult } from '../../core/store.js'
import { keyHolder, takeKey } from './keys.js'
import { type Memory, NORMAL } from './memory.js'
import { putFinished, putReady, unblock } from './moves.js'

export function requeue(memory: Memory, ids: readonly string[], by: string, nowMs: number): RequeueResult[] {
  return ids.map((id): RequeueResult => {
    const job = memory.jobs.get(id)
    if (job === undefined) return { id, result: 'missing' }
    if (job.state !== 'dead') return { id, result: 'refused', state: job.state }
    const holder = keyHolder(memory, job.facts, nowMs)
    if (holder !== null && holder.jobId !== id) {
      return { id, result: 'refused', state: job.state, heldBy: holder.jobId }
    }
    takeKey(memory, job, nowMs)
    job.attempt = 0
    job.crashes = 0
    job.ending = null
    const replay = job.replays.length + 1
    job.replays.push({ number: replay, at: new Date(nowMs), by })
    putReady(memory, job, NORMAL, nowMs)
    return { id, result: 'requeued', replay }
  })
}

export function discard(memory: Memory, ids: readonly string[], nowMs: number): CancelResult[] {
  const results = ids.map((id): CancelResult => {
    const job = memory.jobs.get(id)
    if (job === undefined) return { id, result: 'missing' }
    if (job.state === 'cancelled') return { id, result: 'cancelled' }
    if (job.state !== 'dead') return { id, result: 'refused', state: job.state }
    putFinished(memory, job, 'cancelled', { ...job.ending, finishedAtMs: nowMs, reason: null })
    return { id, result: 'cancelled' }
  })
  unblock(memory, ids, nowMs)
  return results
}
