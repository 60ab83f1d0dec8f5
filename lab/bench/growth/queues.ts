// How does drain speed follow the number of queues that one process serves?

import { drainFigure } from './drain-figure.js'
import { DRAIN_COLUMNS, jobsOf, measureWindows, pointScale, summariseWindows, USUAL_WORKER } from './drain-point.js'
import { column, type GrowthMeasure, type GrowthRow } from './measure.js'
import { prepareDatabase, seedReady } from './seed.js'
import type { WorkerSpec } from './worker-child.js'

// A worker takes no more; a process that serves more queues has several workers.
const QUEUES_OF_WORKER_MAX = 200

export const queues: GrowthMeasure = {
  about: 'drain speed by the number of queues one process serves',
  async run(context) {
    const scale = pointScale(context)
    const rows: GrowthRow[] = []
    for (const count of context.isQuick ? [1, 10, 300] : [1, 10, 100, 1_000]) {
      const names = Array.from({ length: count }, (_, index) => (count === 1 ? 'default' : `queue-${index + 1}`))
      const url = await prepareDatabase(context, (client) => seedReady(client, jobsOf(scale), names))
      const workers = share(names)
      const windows = await measureWindows(url, workers, scale)
      rows.push({ queues: count, workers: workers.length, ...summariseWindows(windows) })
    }
    return {
      columns: [column('queues', 'queues'), column('workers', 'workers'), ...DRAIN_COLUMNS],
      rows,
      notes: [
        `Jobs are spread evenly. A worker serves at most ${QUEUES_OF_WORKER_MAX} queues: beyond that the process has several, which share the 64 slots and the prefetch of 1,000.`,
      ],
      figures: {
        queues: drainFigure(rows, {
          title: 'Drain speed by the number of queues one process serves',
          label: 'queues',
          field: 'queues',
          scale: 'log',
          subtitle: '64 slots and prefetch 1,000 in all, jobs that do nothing',
        }),
      },
    }
  },
}

function share(names: readonly string[]): WorkerSpec[] {
  const count = Math.ceil(names.length / QUEUES_OF_WORKER_MAX)
  return Array.from({ length: count }, (_, index) => ({
    queues: names.slice(index * QUEUES_OF_WORKER_MAX, (index + 1) * QUEUES_OF_WORKER_MAX),
    slots: Math.ceil(USUAL_WORKER.slots / count),
    prefetch: Math.ceil(USUAL_WORKER.prefetch! / count),
  }))
}
