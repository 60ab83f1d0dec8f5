// All queues together.

import type { QueueOverview } from './api/types.js'

/** The states in which a job waits or runs, in the order in which charts stack them. */
export const DEPTH_STATES = ['running', 'ready', 'retrying', 'scheduled', 'blocked'] as const

const COUNTED = ['running', 'ready', 'retrying', 'scheduled', 'blocked', 'dead'] as const
const RATED = ['enqueued', 'succeeded', 'failed', 'dead'] as const

/** Counts, rates and the highest age over all queues. */
export interface Totals extends Pick<QueueOverview, (typeof COUNTED)[number] | 'oldestAgeS' | 'rates'> {
  /** The queue whose job has been ready longest, or null when none is ready. */
  readonly oldestQueue: string | null
}

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
