// Does a store that keeps millions of finished jobs slow the claim down?

import type pg from 'pg'
import { drainFigure } from './drain-figure.js'
import { DRAIN_COLUMNS, jobsOf, measureWindows, pointScale, summariseWindows, USUAL_WORKER } from './drain-point.js'
import { column, type GrowthMeasure, type GrowthRow } from './measure.js'
import { prepareDatabase, seedFinished, seedReady } from './seed.js'

// The default retention in days, including today.
const DAYS = 7

export const finished: GrowthMeasure = {
  about: 'drain speed with finished jobs kept in the store',
  async run(context) {
    const scale = pointScale(context)
    const rows: GrowthRow[] = []
    for (const count of context.isQuick ? [0, 50_000] : [0, 1_000_000, 10_000_000]) {
      const seed = async (client: pg.Client) => {
        await seedFinished(client, count, DAYS)
        await seedReady(client, jobsOf(scale))
      }
      const url = await prepareDatabase(context, seed, { isCold: true })
      rows.push({ finished: count, ...summariseWindows(await measureWindows(url, [USUAL_WORKER], scale)) })
    }
    return {
      columns: [column('finished', 'finished'), ...DRAIN_COLUMNS],
      rows,
      notes: [
        `Finished jobs are spread over the last ${DAYS} days; the server was started again after they were written.`,
      ],
      figures: {
        finished: drainFigure(rows, {
          title: 'Drain speed with finished jobs kept in the store',
          label: 'finished jobs that are kept',
          field: 'finished',
          scale: 'even',
        }),
      },
    }
  },
}
