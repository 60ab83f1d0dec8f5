// Makes jobs ready whose time has come. It has nothing to do for blocked jobs: in this store every call that finishes a job also
// unblocks its children.

import type { Promotion } from '../../core/upkeep-store.js'
import { FRONT, type Memory, NORMAL } from './memory.js'
import { putReady, take } from './moves.js'
import { compareText } from './ordered.js'

export function promote(memory: Memory, limit: number, nowMs: number): Promotion {
  const first = memory.timed.values[0]?.runAtMs ?? null
  const due = memory.timed.values.slice(0, limit).filter((job) => job.runAtMs! <= nowMs)
  for (const job of due) {
    const lane = job.state === 'scheduled' ? FRONT : NORMAL
    take(memory, job)
    putReady(memory, job, lane, nowMs)
  }
  const next = memory.timed.values[0]
  return {
    promoted: due.length,
    queues: [...new Set(due.map((job) => job.facts.queue))].sort(compareText),
    nextDueMs: next === undefined ? null : Math.max(0, next.runAtMs! - nowMs),
    lateMs: due.length === 0 || first === null ? null : nowMs - first,
  }
}
