// Experiment 10: the mix at a fixed rate for a long time, with durable enqueues. Then the rate is raised step by step until the
// backlog grows.

import { seedReady } from '../bench/growth/seed.js'
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
  type Verdict,
} from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { type Producers, type ProducersTotals, withProducers } from './producers.js'
import { pause, waitUntilDone } from './proof.js'
import { Sampler } from './sampler.js'
import { aimsOf, COLUMNS, highestOf, notesOf, rowOf, type Step } from './sustained-result.js'

interface SustainedConfig {
  readonly rate: number
  readonly minutes: number
  readonly processes: number
  readonly slots: number
  readonly claimBatch: number
  readonly producers: number
  /** Jobs that wait in another queue the whole time, in the same tables. */
  readonly standing: number
  readonly timedPerSecond: number
  readonly timedAheadMs: number
  readonly warmupSeconds: number
  /** The factor between two steps. */
  readonly stepFactor: number
  readonly steps: number
  readonly stepSeconds: number
  /** After the steps, at 80 % and at 50 % of the highest rate that was kept up with. */
  readonly belowSeconds: number
  /** Between a change of the rate and what is measured at it, there. */
  readonly leadSeconds: number
  readonly longMs: readonly [number, number]
  readonly deadlineSeconds: number
}

const QUEUES = ['gen']
/** Hot code is compiled first. At half the rate no backlog grows meanwhile. */
const WARM_UP_PART = 0.5

export const sustained: Experiment = defineExperiment<SustainedConfig>({
  about: 'the mix at a steady rate, durably enqueued; then the ceiling',
  longTakes: '28 minutes',
  short: {
    rate: 500,
    minutes: 1 / 3,
    processes: 2,
    slots: 256,
    claimBatch: 100,
    producers: 1,
    standing: 20_000,
    timedPerSecond: 10,
    timedAheadMs: 1_500,
    warmupSeconds: 1,
    stepFactor: 1.25,
    steps: 1,
    stepSeconds: 2,
    belowSeconds: 2,
    leadSeconds: 1,
    longMs: [2_000, 3_000],
    deadlineSeconds: 60,
  },
  long: {
    rate: 10_000,
    minutes: 20,
    processes: 8,
    slots: 512,
    claimBatch: 250,
    producers: 2,
    standing: 1_000_000,
    timedPerSecond: 50,
    timedAheadMs: 5_000,
    warmupSeconds: 30,
    stepFactor: 1.15,
    steps: 8,
    stepSeconds: 30,
    belowSeconds: 75,
    leadSeconds: 10,
    longMs: [35_000, 45_000],
    deadlineSeconds: 600,
  },
  takes: ['minutes', 'rate', 'processes', 'slots'],
  adjust: (config, { minutes, rate, processes, slots }) => ({
    ...config,
    minutes: minutes ?? config.minutes,
    rate: rate ?? config.rate,
    processes: processes ?? config.processes,
    slots: slots ?? config.slots,
  }),
  run: (context) => {
    const { place, config, seed } = context
    const { processes, slots, claimBatch, producers: count, standing, timedPerSecond } = config
    return withGround(
      place,
      (client) => seedReady(client, standing, ['standing']),
      (ground) =>
        withFleet({ url: ground.url, processes, slots, claimBatch, queues: QUEUES }, (fleet) =>
          withProducers(
            {
              ...{ url: ground.url, seed, mix: mixOf(config), producers: count },
              timed: { perSecond: timedPerSecond / count, aheadMs: config.timedAheadMs, queue: 'gen' },
            },
            (producers) => observe(context, { ground, fleet, producers }),
          ),
        ),
    )
  },
})

/** Few jobs longer than the lease: each holds a slot for forty seconds, and one in two hundred would take all slots. */
function mixOf({ longMs }: SustainedConfig): Mix {
  return {
    ...MIX_DEFAULT,
    shares: { ...MIX_DEFAULT.shares, slow: 0.1998, long: 0.0002 },
    durationsMs: { ...MIX_DEFAULT.durationsMs, long: longMs },
  }
}

const SETTLE_MS = 1_000
const ACCEPTED_PART = 0.97
/** A step ends early when its backlog has grown by this many seconds' worth of jobs. */
const GROWN_SECONDS = 3
/** The parts of the ceiling at which claims and enqueues are timed again. */
const BELOW = [0.8, 0.5]

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
}

async function observe(context: ExperimentContext<SustainedConfig>, cast: Cast): Promise<ExperimentResult> {
  const { config, seed } = context
  const { ground, fleet, producers } = cast
  fleet.start()
  await producers.setPace(config.rate * WARM_UP_PART)
  await pause(config.warmupSeconds * 1_000)
  await producers.setPace(config.rate)
  await pause(SETTLE_MS)
  const sampler = await Sampler.open({ ...cast, queues: QUEUES })
  const stage = { ...cast, sampler }
  const steady = await measureStep(context, stage, {
    ...{ part: 'steady', rate: config.rate, seconds: config.minutes * 60, isEndedEarly: false },
  })
  const steadySeconds = sampler.seconds
  const steps = await findCeiling(context, stage, steady)
  const below = await measureBelow(context, stage, highestOf([steady, ...steps]))
  await producers.setPace(0)
  const isDone = await waitUntilDone(ground.client, QUEUES, config.deadlineSeconds * 1_000)
  await sampler.stop()
  const totals = await producers.stop()
  await fleet.stop()
  const all = [steady, ...steps, ...below]
  return {
    columns: COLUMNS,
    rows: all.map(rowOf),
    verdicts: [...(await proveEnds(ground, totals, isDone)), ...aimsOf(config.rate, { steady, steps, below })],
    notes: [
      `Seed ${seed}. ${config.processes} processes × ${config.slots} slots, claims of at most ${config.claimBatch}; ${config.producers} producers; ${config.standing.toLocaleString('en')} jobs wait in another queue the whole time. Poison jobs have three attempts and flapping ones fail one to three times, so a job is claimed 1.2 times on average.`,
      'Long jobs (beyond the lease) are one in 5,000: each holds a slot for forty seconds.',
      ...all.flatMap((one) => notesOf(one, config.processes * config.slots)),
    ],
    figures: {
      sustained: courseFigure(sampler.samples, {
        title: `The mix at ${config.rate.toLocaleString('en')} jobs/s, then more`,
        subtitle: `${config.processes} processes × ${config.slots} slots, durable enqueue, ${config.standing.toLocaleString('en')} jobs standing in another queue`,
        panels: ['speed', 'depth', 'claim', 'enqueue', 'late'],
        marks: [{ x: steadySeconds, label: 'rate raised' }],
      }),
    },
    samples: [...sampler.samples],
    evidence: Object.fromEntries(
      all.map(({ part, evidence, stretch: { claimSplit, enqueueSplit } }) => {
        return [part, { ...evidence, splits: { claims: claimSplit, enqueues: enqueueSplit } }]
      }),
    ),
  }
}

type Stage = Cast & { readonly sampler: Sampler }

/** Raises the rate until the fleet no longer keeps up; or, when it did not keep up with the first rate, lowers it until it does. */
async function findCeiling(
  context: ExperimentContext<SustainedConfig>,
  stage: Stage,
  steady: Step,
): Promise<readonly Step[]> {
  const { config } = context
  const steps: Step[] = []
  const factor = steady.isGrowing ? 1 / config.stepFactor : config.stepFactor
  for (let count = 1; count <= config.steps && (steps.at(-1) ?? steady).isGrowing === steady.isGrowing; count++) {
    const rate = Math.round(config.rate * factor ** count)
    say(`  step: ${rate} jobs/s`)
    if (steady.isGrowing) await drainBacklog(stage, config.deadlineSeconds)
    await stage.producers.setPace(rate)
    await pause(SETTLE_MS)
    steps.push(
      await measureStep(context, stage, {
        ...{ part: `step ${count}`, rate, seconds: config.stepSeconds, isEndedEarly: true },
      }),
    )
  }
  return steps
}

async function measureBelow(
  context: ExperimentContext<SustainedConfig>,
  stage: Stage,
  ceiling: number | null,
): Promise<readonly Step[]> {
  if (ceiling === null) return []
  const { config } = context
  await drainBacklog(stage, config.deadlineSeconds)
  const measured: Step[] = []
  for (const share of BELOW) {
    const rate = Math.round(share * ceiling)
    say(`  at ${share * 100} % of the ceiling: ${rate} jobs/s`)
    await stage.producers.setPace(rate)
    await pause(config.leadSeconds * 1_000)
    measured.push(
      await measureStep(context, stage, {
        ...{ part: `at ${share * 100} %`, rate, seconds: config.belowSeconds, isEndedEarly: false },
      }),
    )
  }
  return measured
}

/** Pauses the producers until what they sent is answered and nothing is ready. Jobs that run or wait for a retry are left to it. */
async function drainBacklog({ ground, producers }: Cast, deadlineSeconds: number): Promise<void> {
  await producers.setPace(0)
  const endMs = performance.now() + deadlineSeconds * 1_000
  // Seen empty twice: between two flushes of a producer it may be empty for a moment.
  for (let empty = 0; empty < 2 && performance.now() < endMs; ) {
    // Asked without `sample()`, which would take the times away from the sampler.
    const { rows } = await ground.client.query(
      'SELECT EXISTS (SELECT FROM holdfast.ready WHERE queue = ANY ($1)) AS open',
      [QUEUES],
    )
    empty = rows[0].open === false ? empty + 1 : 0
    await pause(200)
  }
}

interface StepPlan {
  readonly part: string
  readonly rate: number
  readonly seconds: number
  /** Whether it ends before its time when the backlog has grown beyond doubt. */
  readonly isEndedEarly: boolean
}

async function measureStep(
  { place }: ExperimentContext<SustainedConfig>,
  { ground, sampler }: Stage,
  { part, rate, seconds, isEndedEarly }: StepPlan,
): Promise<Step> {
  const collector = await EvidenceCollector.open(ground.url, await place.serverPid())
  await sampler.cut()
  const before = sampler.samples.at(-1)!.ready
  const endMs = performance.now() + seconds * 1_000
  for (let leftMs = seconds * 1_000; leftMs > 0; leftMs = endMs - performance.now()) {
    await pause(Math.min(1_000, leftMs))
    if (isEndedEarly && sampler.samples.at(-1)!.ready - before > GROWN_SECONDS * rate) break
  }
  const stretch = await sampler.cut()
  const { workersCpuUs, producersCpuUs, workersWaitedUs, producersWaitedUs, succeeded, dead } = stretch
  const spent = { workersCpuUs, producersCpuUs, workersWaitedUs, producersWaitedUs }
  const evidence = await collector.end({ jobs: succeeded + dead, ...spent })
  // It does not keep up if the backlog grew by a second's worth of jobs, or fewer jobs were accepted than offered.
  const isLate = stretch.accepted < ACCEPTED_PART * rate * stretch.seconds
  return { part, rate, stretch, evidence, isGrowing: isLate || stretch.readyAtEnd - stretch.readyAtStart > rate }
}

/** Every accepted job has ended. They are counted, because there are too many to compare one by one. */
async function proveEnds({ client }: Ground, totals: ProducersTotals, isDone: boolean): Promise<readonly Verdict[]> {
  const { rows } = await client.query(`
    SELECT (SELECT count(*) FROM holdfast.finished WHERE ending = 'succeeded')::float8
         + (SELECT count(*) FROM holdfast.dead)::float8 AS ended,
           (SELECT count(*) FROM holdfast.dead WHERE reason <> 'attempts')::float8 AS other`)
  const accepted = totals.accepted + totals.timedAccepted
  const { ended, other } = rows[0] as { ended: number; other: number }
  return [
    expectThat('all jobs end', 'yes', isDone ? 'yes' : 'no', isDone),
    expectThat('as many ended as were accepted', `at least ${accepted}`, String(ended), ended >= accepted),
    expectThat('jobs die only of used-up attempts', 'none else', String(other), other === 0),
    {
      kind: 'aim',
      about: 'enqueues refused',
      expected: 'none at rates that are kept up with',
      seen: String(totals.refused),
      holds: totals.refused === 0,
    },
  ]
}
