// The plot that most experiments have: samples second by second.

import type { Figure } from '../plot.js'
import type { Sample } from './sampler.js'

export interface CourseOptions {
  readonly title: string
  readonly subtitle: string
  readonly panels: readonly ('speed' | 'depth' | 'claim' | 'enqueue' | 'late' | 'retries')[]
  readonly marks?: Figure['marks']
}

/** Samples over time. */
export function courseFigure(samples: readonly Sample[], options: CourseOptions): Figure {
  const line = (name: string, read: (sample: Sample) => number | null) => ({
    name,
    points: samples.map((sample) => [sample.seconds, read(sample) ?? Number.NaN] as const),
  })
  const panels = {
    speed: {
      label: 'jobs/s',
      series: [
        line('done', ({ donePerSecond }) => donePerSecond),
        ...(samples.some(({ acceptedPerSecond }) => acceptedPerSecond > 0)
          ? [line('accepted', ({ acceptedPerSecond }) => acceptedPerSecond)]
          : []),
      ],
    },
    depth: {
      label: 'jobs',
      series: [line('ready', ({ ready }) => ready), line('running', ({ running }) => running)],
    },
    claim: {
      label: 'claim, ms',
      series: [line('p50', ({ claimP50Ms }) => claimP50Ms), line('p99', ({ claimP99Ms }) => claimP99Ms)],
    },
    enqueue: {
      label: 'enqueue, ms',
      series: [line('p50', ({ enqueueP50Ms }) => enqueueP50Ms), line('p99', ({ enqueueP99Ms }) => enqueueP99Ms)],
    },
    late: {
      label: 'timed jobs late by, ms',
      series: [line('p50', ({ lateP50Ms }) => lateP50Ms), line('p99', ({ lateP99Ms }) => lateP99Ms)],
    },
    retries: { label: 'retries/s', series: [line('retries', ({ retriedPerSecond }) => retriedPerSecond)] },
  }
  return {
    title: options.title,
    subtitle: options.subtitle,
    x: { label: 'seconds', scale: 'linear' },
    panels: options.panels.map((name) => panels[name]),
    ...(options.marks === undefined ? {} : { marks: options.marks }),
  }
}
