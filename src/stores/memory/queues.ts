// Queues: paused, resumed, set, shown.

import type { QueueSettings, QueueView } from '../../core/job.js'
import { type Memory, openQueue } from './memory.js'
import { compareText } from './ordered.js'

export function pause(memory: Memory, name: string): void {
  openQueue(memory, name).paused = true
}

export function resume(memory: Memory, name: string): void {
  const queue = memory.queues.get(name)
  if (queue === undefined) return
  queue.paused = false
  memory.woken.add(name)
}

export function setQueue(memory: Memory, name: string, settings: QueueSettings): void {
  openQueue(memory, name).settings = structuredClone(settings)
}

export function queues(memory: Memory): QueueView[] {
  return [...memory.queues]
    .map(([name, { paused, settings }]) => ({ name, paused, settings }))
    .sort((one, other) => compareText(one.name, other.name))
}
