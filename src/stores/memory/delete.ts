// Deletes jobs with everything that is known of them.

import type { DeleteResult } from '../../core/operator-store.js'
import { allows, isFinished } from '../../core/states.js'
import { writeLine } from './audit.js'
import { freeSlots } from './held.js'
import { releaseKey } from './keys.js'
import type { Memory } from './memory.js'
import { putFinished, take, unblock } from './moves.js'

export function deleteJobs(memory: Memory, ids: readonly string[], by: string, nowMs: number): DeleteResult[] {
  // A job that is in the call twice is answered twice and written down once.
  const answers = new Map([...new Set(ids)].map((id) => [id, endOne(memory, id, nowMs)]))
  const gone = [...answers.values()].filter(({ result }) => result === 'deleted').map(({ id }) => id)
  // While they are still there: the jobs that come after a cancelled one must see how it ended.
  unblock(memory, gone, nowMs)
  for (const id of gone) {
    forget(memory, id)
    writeLine(memory, { actor: by, action: 'delete', job: id }, nowMs)
  }
  return ids.map((id) => answers.get(id)!)
}

/** Ends a job that waits. */
function endOne(memory: Memory, id: string, nowMs: number): DeleteResult {
  const job = memory.jobs.get(id)
  if (job === undefined) return { id, result: 'missing' }
  if (!allows(job.state, 'delete')) return { id, result: 'refused', state: job.state }
  if (!isFinished(job.state)) {
    take(memory, job)
    freeSlots(memory, job)
    putFinished(memory, job, 'cancelled', { finishedAtMs: nowMs })
  }
  return { id, result: 'deleted' }
}

function forget(memory: Memory, id: string): void {
  releaseKey(memory, memory.jobs.get(id)!)
  memory.jobs.delete(id)
  memory.blocked.delete(id)
}
