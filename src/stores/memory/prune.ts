// Drops what has run out: finished jobs past their retention, keys, ticks, workers.

import { idTimeMs } from '../../core/id.js'
import { SERIES_KEPT_MS } from '../../core/operating.js'
import type { Pruned } from '../../core/upkeep-store.js'
import { pruneGroups, pruneTracks } from './groups.js'
import { hasExpired } from './keys.js'
import type { Job, Memory } from './memory.js'
import { compareText } from './ordered.js'

const DAY_MS = 86_400_000
/** A tick this old cannot come up again: no schedule catches up that far. */
const TICK_KEPT_MS = 30 * DAY_MS
/** Workers beat every few seconds; one unseen this long is gone. */
const WORKER_KEPT_MS = 600_000

export function prune(memory: Memory, retentionMs: number, nowMs: number): Pruned {
  const { days, early } = pruneJobs(memory, retentionMs, nowMs)
  return { days, rows: pruneRest(memory, nowMs), ...(early === 0 ? {} : { early }), postponed: [], isDone: true }
}

function pruneJobs(memory: Memory, retentionMs: number, nowMs: number): { days: string[]; early: number } {
  const retentionOf = (queue: string) => memory.queues.get(queue)?.settings.retentionMs ?? retentionMs
  // Stores drop whole days, which hold jobs of all queues, when the longest retention is over. Jobs of other queues go before that.
  const queues = [...memory.queues.values()].map(({ settings }) => settings.retentionMs ?? 0)
  const finishedBeforeMs = nowMs - Math.max(retentionMs, ...queues)
  const days = new Set<string>()
  let early = 0
  for (const job of memory.jobs.values()) {
    const isOfDay = isPrunable(job, finishedBeforeMs)
    const ownBeforeMs = nowMs - retentionOf(job.facts.queue)
    // One of the longest retention goes with its day.
    if (!isOfDay && (ownBeforeMs <= finishedBeforeMs || !isEarly(job, ownBeforeMs))) continue
    memory.jobs.delete(job.facts.id)
    memory.blocked.delete(job.facts.id)
    if (isOfDay) days.add(new Date(idTimeMs(job.facts.id)).toISOString().slice(0, 10))
    else early++
  }
  return { days: [...days].sort(compareText), early }
}

function isPrunable({ facts, state, ending }: Job, finishedBeforeMs: number): boolean {
  if (state !== 'succeeded' && state !== 'cancelled') return false
  const dayEndMs = (Math.floor(idTimeMs(facts.id) / DAY_MS) + 1) * DAY_MS
  return dayEndMs < finishedBeforeMs && ending!.finishedAtMs < finishedBeforeMs
}

function isEarly({ state, ending }: Job, finishedBeforeMs: number): boolean {
  return (state === 'succeeded' || state === 'cancelled') && ending!.finishedAtMs < finishedBeforeMs
}

function pruneRest(memory: Memory, nowMs: number): number {
  let rows = 0
  for (const [name, held] of memory.keys) if (hasExpired(held, nowMs) && memory.keys.delete(name)) rows++
  for (const ticks of memory.ticks.values()) {
    for (const tickMs of ticks) if (tickMs < nowMs - TICK_KEPT_MS && ticks.delete(tickMs)) rows++
  }
  for (const { id, seenAt } of memory.workers.values()) {
    if (seenAt.getTime() < nowMs - WORKER_KEPT_MS && memory.workers.delete(id)) rows++
  }
  for (const kept of [memory.tallies, memory.samples]) {
    for (const atMs of kept.keys()) if (atMs < nowMs - SERIES_KEPT_MS) kept.delete(atMs)
  }
  pruneTracks(memory)
  return rows + pruneGroups(memory, nowMs)
}
