// Does a worker's memory stay constant while it drains a million jobs?

import { residentBytes } from '../resources.js'
import { askWindow, withWorkers } from './drain-point.js'
import { column, type GrowthMeasure, type GrowthRow, megabytes } from './measure.js'
import { prepareDatabase, seedReady } from './seed.js'

const SLOTS = 512
const PREFETCH = 1_000
const SAMPLE_MS = 100
const SECONDS_MAX = 600

export const memory: GrowthMeasure = {
  about: 'resident memory of a worker with 512 slots',
  async run(context) {
    const jobs = context.isQuick ? 20_000 : 1_000_000
    const url = await prepareDatabase(context, (client) => seedReady(client, jobs))
    const samples: { seconds: number; bytes: number }[] = []
    const workers = [{ queues: ['default'], slots: SLOTS, prefetch: PREFETCH }]
    const window = await withWorkers({ postgresUrl: url, workers }, async (child) => {
      const beganMs = performance.now()
      const sample = () => {
        const bytes = residentBytes(child.pid)
        if (bytes !== null) samples.push({ seconds: (performance.now() - beganMs) / 1_000, bytes })
      }
      sample()
      const timer = setInterval(sample, SAMPLE_MS)
      try {
        return await askWindow(child, { jobs, secondsMax: SECONDS_MAX })
      } finally {
        clearInterval(timer)
        sample()
      }
    })
    const row: GrowthRow = {
      slots: SLOTS,
      jobs: window.jobs,
      jobsPerSecond: window.jobs / window.seconds,
      atStartMb: megabytes(samples[0]!.bytes),
      mostMb: megabytes(Math.max(...samples.map(({ bytes }) => bytes))),
      atEndMb: megabytes(samples.at(-1)!.bytes),
    }
    return {
      columns: [
        column('slots', 'slots'),
        column('jobs', 'jobs'),
        column('jobs/s', 'jobsPerSecond'),
        column('at start MB', 'atStartMb', 1),
        column('most MB', 'mostMb', 1),
        column('at end MB', 'atEndMb', 1),
      ],
      rows: [row],
      notes: [`The memory of the whole process, with Node and the thread that extends leases, every ${SAMPLE_MS} ms.`],
      figures: {
        memory: {
          title: `Memory of a worker that drains ${jobs.toLocaleString('en')} jobs`,
          subtitle: `one process, ${SLOTS} slots, prefetch ${PREFETCH.toLocaleString('en')}, jobs that do nothing`,
          x: { label: 'seconds', scale: 'linear' },
          panels: [
            {
              label: 'resident memory, MB',
              series: [{ name: 'memory', points: samples.map(({ seconds, bytes }) => [seconds, bytes / 1e6]) }],
            },
          ],
        },
      },
      samples,
    }
  },
}
