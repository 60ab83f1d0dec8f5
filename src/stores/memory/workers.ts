// The workers that are alive.

import { isLiveAfter } from '../../core/operating.js'
import type { WorkerBeat, WorkerView } from '../../core/views.js'
import { copyOf } from './copy.js'
import type { Memory } from './memory.js'
import { compareText } from './ordered.js'

export function beat(memory: Memory, worker: WorkerBeat, nowMs: number): void {
  const startedAt = memory.workers.get(worker.id)?.startedAt ?? new Date(nowMs)
  memory.workers.set(worker.id, { ...copyOf(worker), startedAt, seenAt: new Date(nowMs) })
}

export function leave(memory: Memory, workerId: string): void {
  memory.workers.delete(workerId)
}

export function workers(memory: Memory): WorkerView[] {
  return [...memory.workers.values()].sort((one, other) => compareText(one.id, other.id))
}

/** Those that were seen a moment ago. */
export function liveWorkers(memory: Memory, nowMs: number): WorkerView[] {
  return workers(memory).filter((worker) => isLiveAfter(nowMs - worker.seenAt.getTime(), worker))
}
