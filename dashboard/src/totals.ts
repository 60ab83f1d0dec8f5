// All queues together.

import type { QueueOverview } from './api/types.js'

/** Counts, rates and the worst age over all queues. */
export interface Totals {
  readonly blocked: number
  readonly scheduled: number
  readonly ready: number
  readonly running: number
  readonly retrying: number
  readonly dead: number
  readonly oldestAgeS: number
  /** The queue whose job has been ready longest, or null when none is ready. */
  readonly oldestQueue: string | null
  readonly rates: QueueOverview['rates']
}

const COUNTED = ['blocked', 'scheduled', 'ready', 'running', 'retrying', 'dead'] as const
const RATED = ['enqueued', 'succeeded', 'failed', 'dead'] as const

/** Sums of the queues. */
export function totalsOf(queues: readonly QueueOverview[]): Totals {
  const sum = (of: (queue: QueueOverview) => number) => queues.reduce((total, queue) => total + of(queue), 0)
  const oldest = queues.reduce<QueueOverview | null>(
    (worst, queue) => (queue.oldestAgeS > (worst?.oldestAgeS ?? 0) ? queue : worst),
    null,
  )
  return {
    ...(Object.fromEntries(COUNTED.map((state) => [state, sum((queue) => queue[state])])) as Pick<
      Totals,
      (typeof COUNTED)[number]
    >),
    oldestAgeS: oldest?.oldestAgeS ?? 0,
    oldestQueue: oldest?.name ?? null,
    rates: Object.fromEntries(RATED.map((rate) => [rate, sum((queue) => queue.rates[rate])])) as QueueOverview['rates'],
  }
}
