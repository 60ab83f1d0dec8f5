// What a job's standing depends on.

import type { Standing } from '../../core/operating.js'
import { flowStanding } from './flow-standing.js'
import { summaryOf } from './get.js'
import { hasFlow, waitingWith } from './held.js'
import { waitOf } from './kept.js'
import { keyHolder } from './keys.js'
import { blockersOf, type Memory } from './memory.js'
import { liveWorkers } from './workers.js'

const AHEAD_MAX = 10_000
const WORKERS_MAX = 50

export function standing(memory: Memory, id: string, nowMs: number): Standing | null {
  const job = memory.jobs.get(id)
  if (job === undefined) return null
  const { queue, type } = job.facts
  const ahead = job.state === 'ready' ? waitingWith(memory, job).values.indexOf(job) : 0
  const holder = keyHolder(memory, job.facts, nowMs)
  return {
    job: summaryOf(memory, job),
    queuePaused: memory.queues.get(queue)?.paused ?? false,
    ahead: { count: Math.min(ahead, AHEAD_MAX), isExact: ahead <= AHEAD_MAX },
    ...(job.waitsOn === null ? {} : { waitsForChildren: true as const }),
    parents: blockersOf(job).map((parent) => {
      const known = memory.jobs.get(parent)
      const { type = null, queue = null } = known?.facts ?? {}
      return { id: parent, state: known?.state ?? null, type, queue }
    }),
    workers: liveWorkers(memory, nowMs)
      .filter((worker) => worker.queues.includes(queue))
      .slice(0, WORKERS_MAX)
      .map((worker) => ({ ...worker, knowsType: worker.types === null || worker.types.includes(type) })),
    keyHeldBy: holder === null || holder.jobId === id ? null : holder.jobId,
    nowMs,
    ...(waitOf(job) === null ? {} : { wait: waitOf(job)! }),
    ...(hasFlow(memory, queue) ? { flow: flowStanding(memory, job, nowMs) } : {}),
  }
}
