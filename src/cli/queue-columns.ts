// Queues as rows of a table.

import type { Depth, QueueOverview } from '../core/operating.js'
import type { Column } from './table.js'
import type { Format } from './terminal.js'
import { spanText } from './times.js'

const STATES: readonly (keyof Depth)[] = ['ready', 'running', 'scheduled', 'retrying', 'blocked', 'dead']

/** A rate as people read it: 0, 0.3/s, 120/s. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return '0'
  return `${perSecond < 10 ? Math.max(0.1, Math.round(perSecond * 10) / 10) : Math.round(perSecond).toLocaleString('en')}/s`
}

/** Jobs that wait, and nobody to run them. */
export function isForsaken({ ready, workers, paused }: QueueOverview): boolean {
  return ready > 0 && workers === 0 && !paused
}

export const QUEUE_COLUMNS: readonly Column<QueueOverview>[] = [
  {
    name: 'queue',
    text: ({ name, paused }) => (paused ? `${name} (paused)` : name),
    format: ({ paused }) => (paused ? 'yellow' : null),
    isLong: true,
  },
  ...STATES.map(
    (state): Column<QueueOverview> => ({
      name: state,
      text: (row) => row[state].toLocaleString('en'),
      side: 'right',
      isSpare: state === 'blocked',
      format: (row): Format | null => (state === 'dead' && row.dead > 0 ? 'red' : null),
    }),
  ),
  {
    name: 'oldest',
    text: ({ ready, oldestAgeS }) => (ready === 0 ? '-' : spanText(oldestAgeS * 1_000)),
    side: 'right',
  },
  {
    name: 'workers',
    text: ({ workers }) => String(workers),
    side: 'right',
    format: (row) => (isForsaken(row) ? 'red' : null),
  },
  { name: 'in', isSpare: true, text: ({ rates }) => rateText(rates.enqueued), side: 'right' },
  { name: 'done', isSpare: true, text: ({ rates }) => rateText(rates.succeeded), side: 'right' },
  { name: 'failed', isSpare: true, text: ({ rates }) => rateText(rates.failed), side: 'right' },
  { name: 'slots', text: ({ slots }) => String(slots), side: 'right', isExtra: true },
]
