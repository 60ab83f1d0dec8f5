// All queues at a glance.

import {
  BUCKET_MS,
  OVERVIEW_QUEUES_MAX,
  type Overview,
  type OverviewRequest,
  type QueueOverview,
  type Rates,
} from '../../core/operating.js'
import type { Memory } from './memory.js'
import { queuesByWeight } from './queues.js'
import { stats } from './stats.js'
import { liveWorkers } from './workers.js'

export function overview(memory: Memory, { queues: asked, offset = 0 }: OverviewRequest, nowMs: number): Overview {
  const live = liveWorkers(memory, nowMs)
  const all = queuesByWeight(memory, new Set(live.flatMap((worker) => worker.queues)))
  const chosen = asked === undefined ? all : all.filter(({ name }) => asked.includes(name))
  const shown = chosen.slice(offset, offset + OVERVIEW_QUEUES_MAX).map((queue): QueueOverview => {
    const { attemptsP99: _, isExact: __, ...counted } = stats(memory, queue.name, nowMs)
    const serving = live.filter((worker) => worker.queues.includes(queue.name))
    return {
      ...queue,
      ...counted,
      workers: serving.length,
      slots: serving.reduce((sum, worker) => sum + worker.concurrency, 0),
      rates: ratesOf(memory, queue.name, nowMs),
    }
  })
  return { nowMs, queues: shown, total: all.length, isExact: asked !== undefined || shown.length === all.length }
}

/** The six full steps before the current one, which is still being counted. */
function ratesOf(memory: Memory, queue: string, nowMs: number): Rates {
  const endMs = nowMs - (nowMs % BUCKET_MS)
  const sum = { enqueued: 0, succeeded: 0, failed: 0, dead: 0 }
  for (const [atMs, tallies] of memory.tallies) {
    const tally = tallies.get(queue)
    if (tally === undefined || atMs < endMs - 60_000 || atMs >= endMs) continue
    sum.enqueued += tally.enqueued
    sum.succeeded += tally.succeeded
    sum.failed += tally.failed
    sum.dead += tally.dead
  }
  const perSecond = (total: number) => total / 60
  return {
    enqueued: perSecond(sum.enqueued),
    succeeded: perSecond(sum.succeeded),
    failed: perSecond(sum.failed),
    dead: perSecond(sum.dead),
  }
}
