// Cancels jobs: immediately while they wait, by asking their worker while they run.

import type { CancelResult } from '../../core/operator-store.js'
import { allows } from '../../core/states.js'
import { writeLine } from './audit.js'
import { freeSlots } from './held.js'
import type { Memory } from './memory.js'
import { putFinished, take, unblock } from './moves.js'

export function cancel(memory: Memory, ids: readonly string[], by: string, nowMs: number): CancelResult[] {
  // A job that is in the call twice is answered twice and written down once.
  const answers = new Map([...new Set(ids)].map((id) => [id, cancelOne(memory, id, by, nowMs)]))
  const results = ids.map((id) => answers.get(id)!)
  unblock(memory, ids, nowMs)
  return results
}

function cancelOne(memory: Memory, id: string, by: string, nowMs: number): CancelResult {
  const job = memory.jobs.get(id)
  if (job === undefined) return { id, result: 'missing' }
  if (job.state === 'cancelled') return { id, result: 'cancelled' }
  if (!allows(job.state, 'cancel')) return { id, result: 'refused', state: job.state }
  writeLine(memory, { actor: by, action: 'cancel', job: id }, nowMs)
  if (job.lease !== null) {
    job.lease.cancelRequested = true
    memory.asked.add(id)
    return { id, result: 'asked' }
  }
  take(memory, job)
  freeSlots(memory, job)
  putFinished(memory, job, 'cancelled', { finishedAtMs: nowMs })
  return { id, result: 'cancelled' }
}
