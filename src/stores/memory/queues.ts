// Queues: paused, resumed, set, shown.

import type { QueueSettings, QueueView } from '../../core/job.js'
import { writeLine } from './audit.js'
import { copyOf } from './copy.js'
import { type Memory, openQueue } from './memory.js'
import { compareText } from './ordered.js'

export function pause(memory: Memory, name: string, by: string, nowMs: number): void {
  writeLine(memory, { actor: by, action: 'pause', target: name }, nowMs)
  openQueue(memory, name).paused = true
}

export function resume(memory: Memory, name: string, by: string, nowMs: number): void {
  writeLine(memory, { actor: by, action: 'resume', target: name }, nowMs)
  const queue = memory.queues.get(name)
  if (queue === undefined) return
  queue.paused = false
  memory.woken.add(name)
}

export function setQueue(
  memory: Memory,
  name: string,
  settings: QueueSettings,
  { by, nowMs }: { readonly by: string; readonly nowMs: number },
): void {
  writeLine(memory, { actor: by, action: 'set queue', target: name, details: settings }, nowMs)
  openQueue(memory, name).settings = copyOf(settings)
}

export function queues(memory: Memory): QueueView[] {
  return [...memory.queues]
    .map(([name, { paused, settings }]) => ({ name, paused, settings }))
    .sort((one, other) => compareText(one.name, other.name))
}
