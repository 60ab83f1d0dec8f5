// Experiment 7: timed jobs in a queue with a deep backlog. How late do they begin?

import { column } from '../bench/growth/measure.js'
import { seedReady } from '../bench/growth/seed.js'
import { nameBound } from './bound.js'
import { courseFigure } from './course.js'
import { EvidenceCollector } from './evidence.js'
import {
  aimBelow,
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  type ExperimentResult,
  expectThat,
} from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { type Producers, withProducers } from './producers.js'
import { pause } from './proof.js'
import { Sampler } from './sampler.js'

interface TimedConfig {
  /** At least `backlogMin` of them are left at the end. */
  readonly backlog: number
  readonly backlogMin: number
  readonly timedPerSecond: number
  readonly aheadMs: number
  readonly seconds: number
  readonly processes: number
  readonly slots: number
  /** Slows the fleet down, so that the backlog lasts. */
  readonly plainMs: readonly [number, number]
  readonly deadlineSeconds: number
}

export const timed: Experiment = defineExperiment<TimedConfig>({
  about: 'how late timed jobs are behind a deep backlog of their own queue',
  longTakes: '4 minutes',
  short: {
    backlog: 20_000,
    backlogMin: 1,
    timedPerSecond: 20,
    aheadMs: 1_500,
    seconds: 3,
    processes: 1,
    slots: 8,
    plainMs: [5, 10],
    deadlineSeconds: 60,
  },
  long: {
    backlog: 2_500_000,
    backlogMin: 1_000_000,
    timedPerSecond: 100,
    aheadMs: 5_000,
    seconds: 90,
    processes: 4,
    slots: 16,
    plainMs: [1, 5],
    deadlineSeconds: 120,
  },
  run: (context) => {
    const { place, config, seed } = context
    const { backlog, processes, slots, plainMs, timedPerSecond, aheadMs } = config
    return withGround(
      place,
      (client) => seedReady(client, backlog),
      (ground) =>
        withFleet({ url: ground.url, processes, slots, plainMs, queues: ['default'] }, (fleet) =>
          withProducers(
            // The rate of other jobs is minimal: only the timed ones count.
            {
              ...{ url: ground.url, seed, jobs: 0 },
              timed: { perSecond: timedPerSecond, aheadMs, queue: 'default' },
            },
            (producers) => observe(context, { ground, fleet, producers }),
          ),
        ),
    )
  },
})

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
}

const LEFT = 'SELECT count(*)::integer AS left FROM holdfast.ready'

const RAN = `
SELECT count(*)::integer AS ran
  FROM holdfast.jobs
  JOIN holdfast.finished ON finished.id = jobs.id
 WHERE jobs.type = 'timed'`

// Timed jobs that have not run are in an unfinished state; no other job of this queue is timed or retried.
const WAITING = `
SELECT (SELECT count(*) FROM holdfast.scheduled)::integer
     + (SELECT count(*) FROM holdfast.running WHERE type = 'timed')::integer
     + (SELECT count(*) FROM holdfast.ready WHERE queue = 'default' AND priority = 0 AND position < 0)::integer AS waiting`

async function observe({ place, config }: ExperimentContext<TimedConfig>, cast: Cast): Promise<ExperimentResult> {
  const { ground, fleet, producers } = cast
  const { seconds, aheadMs, timedPerSecond, backlogMin, deadlineSeconds } = config
  fleet.start()
  const collector = await EvidenceCollector.open(ground.url, await place.serverPid())
  const sampler = await Sampler.open({ ...cast, queues: ['default'] })
  await producers.setPace(1)
  await pause(seconds * 1_000)
  await producers.setPace(0)
  const ran = await waitForTimed(ground, aheadMs + deadlineSeconds * 1_000)
  // By now the last calls have been answered.
  const { timedAccepted } = await producers.sample()
  const stretch = await sampler.cut()
  await sampler.stop()
  const { late, workersCpuUs, producersCpuUs, succeeded } = stretch
  const evidence = await collector.end({ jobs: succeeded, workersCpuUs, producersCpuUs })
  const { rows } = await ground.client.query(LEFT)
  const left = rows[0].left as number
  return {
    columns: COLUMNS,
    rows: [
      {
        ...{ timed: timedAccepted, ran, p50: late.p50, p99: late.p99, max: late.max },
        ...{ left, donePerSecond: succeeded / stretch.seconds, claimP99Ms: stretch.claims.p99 },
      },
    ],
    verdicts: [
      expectThat('timed jobs run', String(timedAccepted), String(ran), ran === timedAccepted && ran > 0),
      expectThat('the backlog was there to the end', `at least ${backlogMin}`, String(left), left >= backlogMin),
      aimBelow('late, p99', 1_000, late.p99),
    ],
    notes: [
      `${timedPerSecond} jobs/s for ${aheadMs / 1_000} s later, of the queue and the priority of the backlog, while ${config.processes} × ${config.slots} slots work it off. Late is from the time a job is for to the start of its handler.`,
      nameBound(evidence),
    ],
    figures: {
      timed: courseFigure(sampler.samples, {
        title: `Timed jobs behind a backlog of ${config.backlog.toLocaleString('en')}`,
        subtitle: `${timedPerSecond} timed jobs/s, ${config.processes} processes × ${config.slots} slots, one queue, one priority`,
        panels: ['late', 'speed', 'claim'],
      }),
    },
    samples: [...sampler.samples],
    evidence: { all: evidence },
  }
}

/** Waits until the timed jobs have run, and returns how many did. */
async function waitForTimed({ client }: Ground, deadlineMs: number): Promise<number> {
  const endMs = performance.now() + deadlineMs
  for (;;) {
    const { rows } = await client.query(WAITING)
    if (rows[0].waiting === 0 || performance.now() > endMs) break
    await pause(100)
  }
  const { rows } = await client.query(RAN)
  return rows[0].ran
}

const COLUMNS = [
  column('timed jobs', 'timed'),
  column('ran', 'ran'),
  column('late p50 ms', 'p50', 1),
  column('p99', 'p99', 1),
  column('max', 'max', 1),
  column('backlog left', 'left'),
  column('jobs/s', 'donePerSecond'),
  column('claim p99 ms', 'claimP99Ms', 2),
]
