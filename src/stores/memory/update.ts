// Changes a job that waits.

import { changeDetails } from '../../core/audit-details.js'
import type { JobChanges, UpdateResult } from '../../core/operator-store.js'
import { allows } from '../../core/states.js'
import { writeLine } from './audit.js'
import { freeSlots } from './held.js'
import type { Job, Memory } from './memory.js'
import { put, take } from './moves.js'

export function update(memory: Memory, id: string, changes: JobChanges, by: string, nowMs: number): UpdateResult {
  const job = memory.jobs.get(id)
  if (job === undefined) return { id, result: 'missing' }
  if (!allows(job.state, 'update')) return { id, result: 'refused', state: job.state }
  take(memory, job)
  freeSlots(memory, job)
  const { priority = job.facts.priority, payload = job.facts.payload } = changes
  job.facts = { ...job.facts, priority, payload }
  if (changes.runAtMs === undefined) put(memory, job)
  else if (changes.runAtMs === null || changes.runAtMs <= nowMs) putAtOnce(memory, job, nowMs)
  else putAt(memory, job, changes.runAtMs)
  writeLine(memory, { actor: by, action: 'update', job: id, details: changeDetails(changes) }, nowMs)
  return { id, result: 'updated', state: job.state }
}

function putAtOnce(memory: Memory, job: Job, nowMs: number): void {
  // A job that waits for a time is left to the next promotion, which gives it its position.
  if (job.state === 'scheduled' || job.state === 'retrying') job.runAtMs = nowMs
  if (job.state === 'blocked') job.runAtMs = null
  put(memory, job)
}

function putAt(memory: Memory, job: Job, runAtMs: number): void {
  if (job.state === 'ready') job.state = 'scheduled'
  job.runAtMs = runAtMs
  put(memory, job)
}
