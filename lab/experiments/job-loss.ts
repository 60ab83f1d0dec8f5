// Experiment 3: worker processes are killed again and again under steady load. Every job that was accepted is done or dead
// afterwards,
// and each effect was applied once.

import { column } from '../bench/growth/measure.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'
import { say } from '../say.js'
import { courseFigure } from './course.js'
import { EvidenceCollector } from './evidence.js'
import {
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  type ExperimentResult,
  expectThat,
} from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { type Producers, withProducers } from './producers.js'
import { countDeliveries, countEnds, pause, prove, proveAll, waitUntilDone } from './proof.js'
import { loadAccepted, loadRuns, RECORD_TABLES } from './records.js'
import { Sampler } from './sampler.js'

interface JobLossConfig {
  readonly rate: number
  readonly seconds: number
  readonly processes: number
  readonly slots: number
  readonly leaseMs: number
  readonly kills: number
  readonly killEveryMs: number
  readonly slowMs: readonly [number, number]
  readonly longMs: readonly [number, number]
  readonly deadlineSeconds: number
}

export const jobLoss: Experiment = defineExperiment<JobLossConfig>({
  about: 'kill -9 under steady load: nothing accepted is lost, no effect is doubled',
  longTakes: '7 minutes',
  short: {
    rate: 120,
    seconds: 4,
    processes: 2,
    slots: 64,
    leaseMs: 2_000,
    kills: 2,
    killEveryMs: 1_500,
    slowMs: [100, 400],
    longMs: [1_500, 2_000],
    deadlineSeconds: 60,
  },
  long: {
    // Jobs that were interrupted twice run one at a time in each process. Faster kills would make more of them than can be run.
    rate: 500,
    seconds: 300,
    processes: 4,
    slots: 256,
    leaseMs: 5_000,
    kills: 60,
    killEveryMs: 5_000,
    slowMs: [200, 2_000],
    longMs: [6_000, 8_000],
    deadlineSeconds: 900,
  },
  run: (context) =>
    withGround(
      context.place,
      async (client) => {
        await client.query(RECORD_TABLES)
      },
      (ground) =>
        withFleet({ url: ground.url, ...fleetOf(context.config) }, (fleet) =>
          withProducers(
            { url: ground.url, seed: context.seed, mix: mixOf(context.config), records: true },
            (producers) => observe(context, { ground, fleet, producers }),
          ),
        ),
    ),
})

function fleetOf({ processes, slots, leaseMs }: JobLossConfig) {
  return { processes, slots, leaseMs, holdMs: leaseMs, records: true, hasEffects: true }
}

function mixOf({ slowMs, longMs }: JobLossConfig): Mix {
  return {
    ...MIX_DEFAULT,
    durationsMs: { ...MIX_DEFAULT.durationsMs, slow: slowMs, long: longMs },
    effects: { 'in transaction': 0.5, outside: 0.5 },
  }
}

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
}

async function observe(
  { place, config, seed }: ExperimentContext<JobLossConfig>,
  cast: Cast,
): Promise<ExperimentResult> {
  const { ground, fleet, producers } = cast
  const { client, url } = ground
  const { rate, seconds, killEveryMs, deadlineSeconds } = config
  const collector = await EvidenceCollector.open(url, await place.serverPid())
  fleet.start()
  await producers.setPace(rate)
  const sampler = await Sampler.open({ ground, fleet, producers, queues: ['gen'] })
  const endMs = performance.now() + seconds * 1_000
  const kills = await killRepeatedly(fleet, sampler, config)
  await pause(endMs - performance.now())
  await producers.setPace(0)
  const isDone = await waitUntilDone(client, ['gen'], deadlineSeconds * 1_000)
  const stretch = await sampler.cut()
  await sampler.stop()
  const { repeatedEffects } = await fleet.sample()
  const { accepted, refused } = await producers.stop()
  await fleet.stop()
  const { workersCpuUs, producersCpuUs } = stretch
  const evidence = await collector.end({ jobs: accepted, workersCpuUs, producersCpuUs })
  say('  comparing what was written down with what the store holds')
  const written = await loadAccepted(client, producers.records)
  await loadRuns(client, fleet.records)
  const proofs = await proveAll(client, ['lost', 'acceptedTwice', 'doubled', 'withoutEffect'])
  const overlapping = await prove(client, 'overlapping')
  const deliveries = await countDeliveries(client)
  const ends = await countEnds(client)
  return {
    columns: COLUMNS,
    rows: [
      {
        ...{ accepted, refused, kills: kills.length, succeeded: ends.succeeded, dead: ends.dead },
        ...{ runs: deliveries.runs, cutOff: deliveries.killed, repeatedEffects },
      },
    ],
    verdicts: [
      expectThat('every accepted job is written down', String(accepted), String(written), written === accepted),
      expectThat('all jobs end', 'yes', isDone ? 'yes' : 'no', isDone),
      expectThat('workers were killed in the middle of jobs', 'yes', String(deliveries.killed), deliveries.killed > 0),
      ...proofs.verdicts,
      {
        // A machine that stalls for longer than the lease lets living workers lose jobs. That is not a loss.
        kind: 'aim',
        about: overlapping.about,
        expected: 'none while processes get their share of the machine',
        seen: overlapping.rows.length === 0 ? 'none' : `${overlapping.rows.length} or more`,
        holds: overlapping.rows.length === 0,
      },
    ],
    notes: [
      `Seed ${seed}. ${deliveries.runs} runs of ${deliveries.jobs} jobs; ${deliveries.killed} runs were cut off by a kill and their jobs run again; ${repeatedEffects} times (as far as the processes that lived to the end know) a handler found its effect already there.`,
      `Dead by reason: ${JSON.stringify(ends.deadByReason)}. Poison jobs use up three attempts; \`crashed\` is a job that was alone with its worker three times when that was killed.`,
      ...proofs.notes,
    ],
    figures: {
      'job-loss': courseFigure(sampler.samples, {
        title: 'Worker processes killed under load',
        subtitle: `${rate} jobs/s of the mix, ${config.processes} processes × ${config.slots} slots, a kill -9 every ${killEveryMs / 1_000} s, lease ${config.leaseMs / 1_000} s`,
        panels: ['speed', 'depth'],
        marks: kills.length <= 12 ? kills.map((x, index) => ({ x, label: index === 0 ? 'kill -9' : '' })) : [],
      }),
    },
    samples: [...sampler.samples],
    evidence: { all: evidence },
  }
}

/** The time of each kill, in seconds. The plan is a number of kills: on a slow machine the load goes on until all of them
 *  happened. */
async function killRepeatedly(fleet: Fleet, sampler: Sampler, config: JobLossConfig): Promise<readonly number[]> {
  const kills: number[] = []
  while (kills.length < config.kills) {
    await pause(config.killEveryMs)
    await fleet.replaceKilled()
    kills.push(sampler.seconds)
  }
  return kills
}

const COLUMNS = [
  column('accepted', 'accepted'),
  column('refused', 'refused'),
  column('kills', 'kills'),
  column('succeeded', 'succeeded'),
  column('dead', 'dead'),
  column('runs', 'runs'),
  column('cut off', 'cutOff'),
  column('effects found done', 'repeatedEffects'),
]
