// Queues: paused, resumed, set, shown.

import { tooManyQueues } from '../../core/queue-limit.js'
import type { QueueSettings, QueueView } from '../../core/views.js'
import { writeLine } from './audit.js'
import { copyOf } from './copy.js'
import { groupOf, isOrdered, offerAll } from './held.js'
import { setQueueLimit } from './limits.js'
import { type Job, type Memory, NORMAL, openQueue, type Queue } from './memory.js'
import { put, take } from './moves.js'
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
  const before = memory.queues.get(name)?.settings
  if (JSON.stringify(before) === JSON.stringify(settings)) return
  const details = { before: before ?? null, after: settings }
  writeLine(memory, { actor: by, action: 'set queue', target: name, details }, nowMs)
  const queue = openQueue(memory, name, nowMs)
  // In an ordered group jobs have other places.
  const held = (memory.tracks.get(name) ?? []).flatMap((track) =>
    [...track.held.values()].flatMap(({ values }) => values),
  )
  for (const job of held) take(memory, job)
  // Jobs that waited in order keep it when the queue has none any more, within their priorities.
  for (const job of held.filter((one) => isOrdered(memory, name, groupOf(one)))) {
    job.lane = NORMAL
    job.position = job.order
  }
  queue.settings = copyOf(settings)
  for (const job of held) put(memory, job)
  setQueueLimit(memory, name, settings.flow, nowMs)
  offerAll(memory, name)
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
  for (const known of [memory.tracks, memory.groups, memory.flowClaims]) known.delete(name)
  setQueueLimit(memory, name, undefined, nowMs)
  writeLine(memory, { actor: by, action: 'remove queue', target: name }, nowMs)
  return 'removed'
}

/** In the order of an overview: first queues that are paused, have settings or have a worker, then those known longest. */
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
