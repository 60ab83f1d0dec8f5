// How does drain speed follow the number of slots?

import { drainFigure } from './drain-figure.js'
import { DRAIN_COLUMNS, jobsOf, measureWindows, pointScale, summariseWindows } from './drain-point.js'
import { column, type GrowthMeasure, type GrowthRow, pointsOf } from './measure.js'
import { prepareDatabase, seedReady } from './seed.js'

const PREFETCH = 1_000

export const slots: GrowthMeasure = {
  about: 'drain speed by the number of slots',
  async run(context) {
    const scale = pointScale(context)
    const rows: GrowthRow[] = []
    for (const prefetch of [PREFETCH, null]) {
      for (const count of context.isQuick ? [1, 8, 64] : [1, 8, 64, 512, 1_024]) {
        const url = await prepareDatabase(context, (client) => seedReady(client, jobsOf(scale)))
        const windows = await measureWindows(url, [{ queues: ['default'], slots: count, prefetch }], scale)
        rows.push({ slots: count, prefetch: prefetch ?? 'default', ...summariseWindows(windows) })
      }
    }
    const [far, near] = [rows.filter(({ prefetch }) => prefetch === PREFETCH), rows.filter(isDefault)]
    const figure = drainFigure(far, {
      title: 'Drain speed by the number of slots',
      label: 'slots',
      field: 'slots',
      scale: 'log',
      subtitle: 'one process, jobs that do nothing; claim times are those with prefetch 1,000',
    })
    const series = [
      { name: 'prefetch 1,000', points: pointsOf(far, 'slots', 'jobsPerSecond') },
      { name: 'default prefetch', points: pointsOf(near, 'slots', 'jobsPerSecond') },
    ]
    return {
      columns: [column('slots', 'slots'), column('prefetch', 'prefetch'), ...DRAIN_COLUMNS],
      rows,
      notes: [
        'By default up to 1,000 jobs are claimed ahead, fewer with longer jobs.',
        `A window ends after ${scale.windowJobs.toLocaleString('en')} jobs or ${scale.secondsMax} s.`,
      ],
      figures: { slots: { ...figure, panels: [{ label: 'jobs/s', series }, figure.panels[1]!] } },
    }
  },
}

function isDefault({ prefetch }: GrowthRow): boolean {
  return prefetch === 'default'
}
