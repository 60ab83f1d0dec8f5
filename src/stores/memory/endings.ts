// How jobs ended, for calls that wait for them.

import { isFinished } from '../../core/states.js'
import type { Ending } from '../../core/views.js'
import { lastError } from './get.js'
import type { Memory } from './memory.js'

export function endings(memory: Memory, ids: readonly string[]): Ending[] {
  return ids.flatMap((id): Ending[] => {
    const job = memory.jobs.get(id)
    if (job === undefined || !isFinished(job.state)) return []
    const { result = null, reason = null } = job.ending ?? {}
    return [{ id, state: job.state, result, reason, error: job.state === 'dead' ? lastError(job) : null }]
  })
}
