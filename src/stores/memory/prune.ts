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
  return { days: pruneJobs(memory, retentionMs, nowMs), rows: pruneRest(memory, nowMs), postponed: [], isDone: true }
}

function pruneJobs(memory: Memory, retentionMs: number, nowMs: number): string[] {
  // Stores drop whole days, and a day holds jobs of all queues, so the longest retention counts for each.
  const queues = [...memory.queues.values()].map(({ settings }) => settings.retentionMs ?? 0)
  const finishedBeforeMs = nowMs - Math.max(retentionMs, ...queues)
  const days = new Set<string>()
  for (const job of memory.jobs.values()) {
    if (!isPrunable(job, finishedBeforeMs)) continue
    memory.jobs.delete(job.facts.id)
    memory.blocked.delete(job.facts.id)
    days.add(new Date(idTimeMs(job.facts.id)).toISOString().slice(0, 10))
  }
  return [...days].sort(compareText)
}

function isPrunable({ facts, state, ending }: Job, finishedBeforeMs: number): boolean {
  if (state !== 'succeeded' && state !== 'cancelled') return false
  const dayEndMs = (Math.floor(idTimeMs(facts.id) / DAY_MS) + 1) * DAY_MS
  return dayEndMs < finishedBeforeMs && ending!.finishedAtMs < finishedBeforeMs
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
