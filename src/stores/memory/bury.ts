// Makes jobs dead that have never run here: an import's failed jobs.

import type { Burial, BuryResult } from '../../core/operator-store.js'
import { freeSlots } from './held.js'
import type { Memory } from './memory.js'
import { putFinished, take, unblock } from './moves.js'

export function bury(memory: Memory, burials: readonly Burial[], nowMs: number): BuryResult[] {
  const results = burials.map((burial) => buryOne(memory, burial, nowMs))
  unblock(
    memory,
    burials.map(({ id }) => id),
    nowMs,
  )
  return results
}

function buryOne(memory: Memory, { id, attempt, error, worker }: Burial, nowMs: number): BuryResult {
  const job = memory.jobs.get(id)
  if (job === undefined) return { id, result: 'missing' }
  // Repeating it changes nothing.
  if (job.state === 'dead') return { id, result: 'buried' }
  if (job.state !== 'scheduled' || job.fence > 0) return { id, result: 'refused', state: job.state }
  const at = new Date(nowMs)
  job.attempts.push({ attempt, worker, startedAt: at, finishedAt: at, error })
  take(memory, job)
  freeSlots(memory, job)
  job.attempt = attempt
  putFinished(memory, job, 'dead', { finishedAtMs: nowMs, startedAtMs: nowMs, worker, reason: 'attempts', error })
  return { id, result: 'buried' }
}
