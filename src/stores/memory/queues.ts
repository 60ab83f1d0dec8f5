// Queues: paused, resumed, set, shown.

import type { QueueSettings, QueueView } from '../../core/job.js'
import { tooManyQueues } from '../../core/queue-limit.js'
import { writeLine } from './audit.js'
import { copyOf } from './copy.js'
import { type Job, type Memory, openQueue, type Queue } from './memory.js'
import { compareText } from './ordered.js'

export function pause(memory: Memory, name: string, by: string, nowMs: number): void {
  writeLine(memory, { actor: by, action: 'pause', target: name }, nowMs)
  openQueue(memory, name, nowMs).paused = true
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
  // Programs set their queues at every start: only what differs is a change.
  if (JSON.stringify(memory.queues.get(name)?.settings) === JSON.stringify(settings)) return
  writeLine(memory, { actor: by, action: 'set queue', target: name, details: settings }, nowMs)
  openQueue(memory, name, nowMs).settings = copyOf(settings)
}

/** Makes queues known; false when `by` would have made more than `most`. Raises when there would be more than `max`. */
export function openQueues(
  memory: Memory,
  names: readonly string[],
  {
    by,
    most,
    max,
    nowMs,
  }: { readonly by: string | null; readonly most: number; readonly max: number; readonly nowMs: number },
): boolean {
  const fresh = [...new Set(names)].filter((name) => !memory.queues.has(name))
  if (fresh.length === 0) return true
  if (memory.queues.size + fresh.length > max) throw tooManyQueues(names, max)
  const made = [...memory.queues.values()].filter(({ createdBy }) => by !== null && createdBy === by).length
  if (by !== null && made + fresh.length > most) return false
  for (const name of fresh) openQueue(memory, name, nowMs, by)
  return true
}

export function removeQueue(memory: Memory, name: string, by: string, nowMs: number): 'removed' | 'busy' | 'missing' {
  if (!memory.queues.has(name)) return 'missing'
  const isLeft = ({ facts, state }: Job) => facts.queue === name && state !== 'succeeded' && state !== 'cancelled'
  if ([...memory.jobs.values()].some(isLeft)) return 'busy'
  memory.queues.delete(name)
  writeLine(memory, { actor: by, action: 'remove queue', target: name }, nowMs)
  return 'removed'
}

/** In the order of an overview: those somebody cares for first, then those known longest. */
export function queuesByWeight(memory: Memory, served: ReadonlySet<string>): QueueView[] {
  const hasSettings = ({ settings }: Queue) => JSON.stringify(settings) !== JSON.stringify({ limits: {} })
  const weight = (name: string, queue: Queue) => (queue.paused || hasSettings(queue) || served.has(name) ? 0 : 1)
  return [...memory.queues]
    .sort(
      ([one, a], [other, b]) =>
        weight(one, a) - weight(other, b) || a.createdAtMs - b.createdAtMs || compareText(one, other),
    )
    .map(([name, { paused, settings }]) => ({ name, paused, settings }))
}

export function queues(memory: Memory): QueueView[] {
  return [...memory.queues]
    .map(([name, { paused, settings }]) => ({ name, paused, settings }))
    .sort((one, other) => compareText(one.name, other.name))
}
