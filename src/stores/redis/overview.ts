// All queues at a glance.

import {
  OVERVIEW_QUEUES_MAX,
  type Overview,
  type OverviewRequest,
  type QueueOverview,
  type Rates,
} from '../../core/operating.js'
import { allQueues, type KnownQueue } from './queues.js'
import type { Redis } from './redis.js'
import { ratesOf } from './series.js'
import { type CountedDepth, depthsOf } from './stats.js'
import { liveWorkers } from './workers.js'

/** What the queues of one shard or of several are read by. */
export interface OverviewSource {
  readonly home: Redis
  allQueues(): Promise<KnownQueue[]>
  depthsOf(names: readonly string[]): Promise<CountedDepth[]>
  ratesOf(names: readonly string[]): Promise<{ readonly rates: readonly Rates[]; readonly nowMs: number }>
}

export function overview(redis: Redis, request: OverviewRequest): Promise<Overview> {
  const source: OverviewSource = {
    home: redis,
    allQueues: () => allQueues(redis),
    depthsOf: (names) => depthsOf(redis, names),
    ratesOf: (names) => ratesOf(redis, names),
  }
  return overviewOf(source, request)
}

export async function overviewOf(
  source: OverviewSource,
  { queues: asked, offset = 0 }: OverviewRequest,
): Promise<Overview> {
  const [known, live] = await Promise.all([source.allQueues(), liveWorkers(source.home)])
  const all = byWeight(known, new Set(live.flatMap(({ queues }) => queues)))
  const chosen = asked === undefined ? all : all.filter(({ name }) => asked.includes(name))
  const page = chosen.slice(offset, offset + OVERVIEW_QUEUES_MAX)
  const names = page.map(({ name }) => name)
  const [depths, { rates, nowMs }] = await Promise.all([source.depthsOf(names), source.ratesOf(names)])
  const shown = page.map(({ name, paused, settings }, index): QueueOverview => {
    const serving = live.filter((worker) => worker.queues.includes(name))
    return {
      ...{ name, paused, settings },
      ...depths[index]!,
      workers: serving.length,
      slots: serving.reduce((sum, worker) => sum + worker.concurrency, 0),
      rates: rates[index]!,
    }
  })
  return { nowMs, queues: shown, total: all.length, isExact: asked !== undefined || shown.length === all.length }
}

/** First queues that are paused, have settings or have a worker, then those known longest. */
function byWeight(queues: readonly KnownQueue[], served: ReadonlySet<string>): KnownQueue[] {
  const hasSettings = ({ settings }: KnownQueue) => JSON.stringify(settings) !== JSON.stringify({ limits: {} })
  const weight = (queue: KnownQueue) => (queue.paused || hasSettings(queue) || served.has(queue.name) ? 0 : 1)
  return [...queues].sort(
    (one, other) =>
      weight(one) - weight(other) || one.createdAtMs - other.createdAtMs || (one.name < other.name ? -1 : 1),
  )
}
