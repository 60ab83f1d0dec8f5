// Experiment 4: an untouched backlog, drained from a server that has just been started. For comparison, the speed of the same
// fleet when jobs are enqueued while others run.

import { column } from '../bench/growth/measure.js'
import { seedReady } from '../bench/growth/seed.js'
import { nameBound } from './bound.js'
import { courseFigure } from './course.js'
import { type Evidence, EvidenceCollector } from './evidence.js'
import { defineExperiment, type Experiment, expectNone, expectThat } from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, type Place, withGround } from './place.js'
import { withProducers } from './producers.js'
import { countEnds, pause, waitUntilDone } from './proof.js'
import { type Sample, Sampler, type Stretch } from './sampler.js'

interface DrainConfig {
  readonly jobs: number
  readonly processes: number
  readonly slots: number
  readonly producers: number
  readonly steadySeconds: number
  /** More than the fleet can do, so that the fleet is measured. Not so much that enqueues are refused, because refusals cost time. */
  readonly steadyRate: number
  readonly deadlineSeconds: number
}

export const drain: Experiment = defineExperiment<DrainConfig>({
  about: 'a cold backlog drained to its end, against steady state',
  longTakes: '8 minutes',
  short: {
    jobs: 50_000,
    processes: 1,
    slots: 64,
    producers: 1,
    steadySeconds: 2,
    steadyRate: 2_000,
    deadlineSeconds: 60,
  },
  long: {
    jobs: 5_000_000,
    processes: 4,
    slots: 64,
    producers: 2,
    steadySeconds: 30,
    steadyRate: 15_000,
    deadlineSeconds: 1_800,
  },
  async run({ place, config, seed }) {
    const { jobs } = config
    const cold = await drainCold(place, config)
    const steady = await runSteady(place, config, seed)
    const rate = cold.done / cold.seconds
    const steadyRate = steady.stretch.succeeded / steady.stretch.seconds
    return {
      columns: COLUMNS,
      rows: [
        rowOf('cold backlog', cold.done, cold.seconds, cold.evidence, cold.stretch),
        rowOf('steady state', steady.stretch.succeeded, steady.stretch.seconds, steady.evidence, steady.stretch),
      ],
      verdicts: [
        expectThat(
          'every job of the backlog succeeds',
          jobs.toLocaleString('en'),
          cold.succeeded.toLocaleString('en'),
          cold.succeeded === jobs,
        ),
        expectNone('enqueues refused in steady state', steady.refused),
      ],
      notes: [
        `Drained in ${cold.seconds.toFixed(1)} s, ${Math.round(rate).toLocaleString('en')} jobs/s; steady state did ${Math.round(steadyRate).toLocaleString('en')} with enqueueing at the same time (${((100 * rate) / steadyRate).toFixed(0)} %).`,
        place.restart === null
          ? 'The server is not ours to restart: its cache was warm.'
          : 'The server was restarted after the backlog was written: its cache was cold.',
        'Why the two differ: a backlog comes in full claims and settles in full batches, and no other process uses the server; in steady state each job is also written, in smaller batches, by producers that share the machine.',
        `Cold: ${nameBound(cold.evidence)}`,
        `Steady: ${nameBound(steady.evidence)}`,
      ],
      figures: {
        drain: courseFigure(cold.samples, {
          title: `${jobs.toLocaleString('en')} jobs drained from cold`,
          subtitle: `${config.processes} processes × ${config.slots} slots, jobs that do nothing`,
          panels: ['speed', 'claim'],
        }),
      },
      samples: cold.samples,
      evidence: { cold: cold.evidence, steady: steady.evidence },
    }
  },
})

async function drainCold(place: Place, config: DrainConfig) {
  const { jobs, deadlineSeconds } = config
  return withGround(
    place,
    (client) => seedReady(client, jobs),
    (ground) =>
      withFleet({ url: ground.url, processes: config.processes, slots: config.slots }, async (fleet) => {
        const collector = await EvidenceCollector.open(ground.url, await place.serverPid())
        const sampler = await openSampler(ground, fleet)
        const beganMs = performance.now()
        fleet.start()
        await waitUntilDone(ground.client, ['default'], deadlineSeconds * 1_000)
        const seconds = (performance.now() - beganMs) / 1_000
        const stretch = await sampler.cut()
        await sampler.stop()
        const facts = { jobs: stretch.succeeded, workersCpuUs: stretch.workersCpuUs, producersCpuUs: null }
        const evidence = await collector.end(facts)
        const { succeeded } = await countEnds(ground.client)
        return { done: succeeded, succeeded, seconds, stretch, samples: [...sampler.samples] as Sample[], evidence }
      }),
    { isCold: true },
  )
}

async function runSteady(place: Place, config: DrainConfig, seed: number) {
  const { steadySeconds, steadyRate, processes, slots } = config
  // Only the fast kind, without waits: the queue is compared, not its handlers.
  const mix = {
    shares: { fast: 1, slow: 0, flapping: 0, poison: 0, long: 0 },
    durationsMs: { fast: [0, 0], slow: [0, 0], flapping: [0, 0], poison: [0, 0], long: [0, 0] },
    failuresMax: 1,
    effects: { 'in transaction': 0, outside: 0 },
  } as const
  return withGround(
    place,
    async () => {},
    (ground) =>
      withFleet({ url: ground.url, processes, slots }, (fleet) =>
        withProducers({ url: ground.url, seed, mix, producers: config.producers }, async (producers) => {
          fleet.start()
          await producers.setPace(steadyRate)
          await pause(1_000)
          const collector = await EvidenceCollector.open(ground.url, await place.serverPid())
          const sampler = await Sampler.open({ ground, fleet, producers, queues: ['gen'] })
          await pause(steadySeconds * 1_000)
          const stretch = await sampler.cut()
          await sampler.stop()
          const { workersCpuUs, producersCpuUs, succeeded } = stretch
          const evidence = await collector.end({ jobs: succeeded, workersCpuUs, producersCpuUs })
          await producers.setPace(0)
          const { refused } = await producers.sample()
          return { stretch, evidence, refused }
        }),
      ),
  )
}

function openSampler(ground: Ground, fleet: Fleet): Promise<Sampler> {
  return Sampler.open({ ground, fleet, producers: null, queues: ['default'] })
}

const COLUMNS = [
  column('what', 'what'),
  column('jobs', 'jobs'),
  column('seconds', 'seconds', 1),
  column('jobs/s', 'jobsPerSecond'),
  column('claim p50 ms', 'claimP50Ms', 2),
  column('p99 ms', 'claimP99Ms', 2),
  column('server cores', 'serverCores', 2),
  column('worker cores', 'workerCores', 2),
  column('WAL bytes/job', 'walBytesPerJob'),
]

function rowOf(what: string, jobs: number, seconds: number, evidence: Evidence, { claims }: Stretch) {
  return {
    what,
    jobs,
    seconds,
    jobsPerSecond: jobs / seconds,
    claimP50Ms: claims.p50,
    claimP99Ms: claims.p99,
    serverCores: evidence.cpu.server,
    workerCores: evidence.cpu.workers,
    walBytesPerJob: evidence.walBytesPerJob,
  }
}
