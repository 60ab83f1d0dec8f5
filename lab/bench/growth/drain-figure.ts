// The plot of a drain under growth: jobs a second above, claim times below.

import type { Figure } from '../../plot.js'
import { type GrowthRow, pointsOf } from './measure.js'

export interface DrainFigureOptions {
  readonly title: string
  /** What grows, with its unit. */
  readonly label: string
  /** The field of the rows that has it. */
  readonly field: string
  readonly scale: 'log' | 'even'
  readonly subtitle?: string
}

/** Draws rows that have the fields of summariseWindows. */
export function drainFigure(
  rows: readonly GrowthRow[],
  { title, label, field, scale, subtitle }: DrainFigureOptions,
): Figure {
  const ticks = pointsOf(rows, field, field).map(([x]) => x)
  return {
    title,
    subtitle: subtitle ?? 'one process, 64 slots, prefetch 1,000, jobs that do nothing',
    x: { label, scale, ...(scale === 'log' ? { ticks } : {}) },
    panels: [
      { label: 'jobs/s', series: [{ name: 'drained', points: pointsOf(rows, field, 'jobsPerSecond') }] },
      {
        label: 'claim, ms',
        series: [
          { name: 'p50', points: pointsOf(rows, field, 'claimP50Ms') },
          { name: 'p99', points: pointsOf(rows, field, 'claimP99Ms') },
        ],
      },
    ],
  }
}
