// Does a store full of jobs whose time has not come slow the claim down?

import { drainFigure } from './drain-figure.js'
import { DRAIN_COLUMNS, jobsOf, measureWindows, pointScale, summariseWindows, USUAL_WORKER } from './drain-point.js'
import { column, type GrowthMeasure, type GrowthRow } from './measure.js'
import { prepareDatabase, seedReady, seedScheduled } from './seed.js'

export const scheduled: GrowthMeasure = {
  about: 'drain speed with scheduled jobs in the store',
  async run(context) {
    const scale = pointScale(context)
    const rows: GrowthRow[] = []
    for (const count of context.isQuick ? [0, 20_000] : [0, 100_000, 1_000_000]) {
      const url = await prepareDatabase(context, async (client) => {
        await seedScheduled(client, count)
        await seedReady(client, jobsOf(scale))
      })
      rows.push({ scheduled: count, ...summariseWindows(await measureWindows(url, [USUAL_WORKER], scale)) })
    }
    return {
      columns: [column('scheduled', 'scheduled'), ...DRAIN_COLUMNS],
      rows,
      notes: ['Scheduled jobs are due from an hour to a week from now.'],
      figures: {
        scheduled: drainFigure(rows, {
          title: 'Drain speed with scheduled jobs in the store',
          label: 'scheduled jobs',
          field: 'scheduled',
          scale: 'even',
        }),
      },
    }
  },
}
