// Experiment 10: the mix at a fixed rate for a long time, with durable enqueues. Then the rate is raised step by step until the
// backlog grows.

import { column, type GrowthRow } from '../bench/growth/measure.js'
import { seedReady } from '../bench/growth/seed.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'
import { say } from '../say.js'
import { nameBound } from './bound.js'
import { courseFigure } from './course.js'
import { type Evidence, EvidenceCollector } from './evidence.js'
import {
  aimBelow,
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
import { Sampler, type Stretch } from './sampler.js'

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
  /** After the steps, at 80 % of the highest rate that was kept up with. */
  readonly eightySeconds: number
  readonly longMs: readonly [number, number]
  readonly deadlineSeconds: number
}

const QUEUES = ['gen']
/** The first minute compiles hot code. At half the rate no backlog grows meanwhile. */
const WARM_UP_PART = 0.5

export const sustained: Experiment = defineExperiment<SustainedConfig>({
  about: 'the mix at a steady rate, durably enqueued; then the ceiling',
  longTakes: '35 minutes',
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
    eightySeconds: 1,
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
    warmupSeconds: 60,
    stepFactor: 1.15,
    steps: 8,
    stepSeconds: 45,
    eightySeconds: 120,
    longMs: [35_000, 45_000],
    deadlineSeconds: 600,
  },
  adjust: (config, { minutes, rate }) => ({
    ...config,
    minutes: minutes ?? config.minutes,
    rate: rate ?? config.rate,
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

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
}

interface Step {
  readonly rate: number
  readonly stretch: Stretch
  readonly evidence: Evidence
  readonly isGrowing: boolean
}

interface Parts {
  readonly steady: Step
  readonly steps: readonly Step[]
  readonly eighty: Step | null
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
  const step = (rate: number, seconds: number) => measureStep(context, { ...cast, sampler }, { rate, seconds })
  const steady = await step(config.rate, config.minutes * 60)
  const steadySeconds = sampler.seconds
  const steps: Step[] = []
  const settle = async () => {
    await producers.setPace(0)
    return waitUntilDone(ground.client, QUEUES, config.deadlineSeconds * 1_000)
  }
  // Up until the fleet no longer keeps up; or down until it does.
  const factor = steady.isGrowing ? 1 / config.stepFactor : config.stepFactor
  for (let count = 1; count <= config.steps && (steps.at(-1) ?? steady).isGrowing === steady.isGrowing; count++) {
    const rate = Math.round(config.rate * factor ** count)
    say(`  step: ${rate} jobs/s`)
    if (steady.isGrowing) await settle()
    await producers.setPace(rate)
    await pause(SETTLE_MS)
    steps.push(await step(rate, config.stepSeconds))
  }
  const ceiling = highestOf([steady, ...steps])
  let isDone = await settle()
  let eighty: Step | null = null
  if (ceiling !== null) {
    const rate = Math.round(0.8 * ceiling)
    await producers.setPace(rate)
    await pause(config.warmupSeconds * 1_000)
    eighty = await step(rate, config.eightySeconds)
    isDone = (await settle()) && isDone
  }
  await sampler.stop()
  const totals = await producers.stop()
  await fleet.stop()
  const all = [steady, ...steps, ...(eighty === null ? [] : [eighty])]
  const load = ({ stretch }: Step) => ({ running: stretch.runningMean, slots: config.processes * config.slots })
  return {
    columns: COLUMNS,
    rows: all.map((one, index) => {
      return rowOf(index === 0 ? 'steady' : one === eighty ? 'at 80 %' : `step ${index}`, one)
    }),
    verdicts: [...(await proveEnds(ground, totals, isDone)), ...aimsOf(config, { steady, steps, eighty })],
    notes: [
      `Seed ${seed}. ${config.processes} processes × ${config.slots} slots, claims of at most ${config.claimBatch}; ${config.producers} producers; ${config.standing.toLocaleString('en')} jobs wait in another queue the whole time. Poison jobs have three attempts and flapping ones fail one to three times, so a job is claimed 1.2 times on average.`,
      'Long jobs (beyond the lease) are one in 5,000: each holds a slot for forty seconds.',
      ...all.map(
        (one) =>
          `At ${one.rate} jobs/s${one.isGrowing ? ' (the backlog grows)' : ''}: ${nameBound(one.evidence, load(one))}`,
      ),
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
    evidence: Object.fromEntries(all.map((one) => [`${one.rate} jobs/s`, one.evidence])),
  }
}

async function measureStep(
  { place }: ExperimentContext<SustainedConfig>,
  { ground, sampler }: Cast & { readonly sampler: Sampler },
  { rate, seconds }: { readonly rate: number; readonly seconds: number },
): Promise<Step> {
  const collector = await EvidenceCollector.open(ground.url, await place.serverPid())
  await sampler.cut()
  await pause(seconds * 1_000)
  const stretch = await sampler.cut()
  const { workersCpuUs, producersCpuUs, succeeded, dead } = stretch
  const evidence = await collector.end({ jobs: succeeded + dead, workersCpuUs, producersCpuUs })
  // It does not keep up if the backlog grew by a second's worth of jobs, or fewer jobs were accepted than offered.
  const isLate = stretch.accepted < ACCEPTED_PART * rate * stretch.seconds
  return { rate, stretch, evidence, isGrowing: isLate || stretch.readyAtEnd - stretch.readyAtStart > rate }
}

/** The highest rate that was kept up with, or null. */
function highestOf(steps: readonly Step[]): number | null {
  const kept = steps.filter(({ isGrowing }) => !isGrowing).map(({ rate }) => rate)
  return kept.length === 0 ? null : Math.max(...kept)
}

/** The lowest rate that was not kept up with, or null. */
function lowestGrowingOf(steps: readonly Step[]): number | null {
  const lost = steps.filter(({ isGrowing }) => isGrowing).map(({ rate }) => rate)
  return lost.length === 0 ? null : Math.min(...lost)
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

function aimsOf(config: SustainedConfig, { steady, steps, eighty }: Parts): readonly Verdict[] {
  const { stretch } = steady
  const rate = (stretch.succeeded + stretch.dead) / stretch.seconds
  const highest = highestOf([steady, ...steps])
  const lowest = lowestGrowingOf([steady, ...steps])
  return [
    {
      kind: 'aim',
      about: `jobs done each second over ${(stretch.seconds / 60).toFixed(1)} minutes`,
      expected: `about ${config.rate}`,
      seen: rate.toFixed(0),
      holds: rate >= 0.98 * config.rate,
    },
    {
      kind: 'aim',
      about: 'depth stays flat',
      expected: 'backlog grown by less than a second of jobs, all accepted',
      seen: `${stretch.readyAtStart} → ${stretch.readyAtEnd}, at most ${stretch.readyMost}`,
      holds: !steady.isGrowing,
    },
    aimBelow('claim p99', 10, stretch.claims.p99),
    aimBelow('claim p99 at 80 % of the ceiling', 10, eighty?.stretch.claims.p99 ?? null),
    aimBelow('enqueue p99', 25, stretch.enqueues.p99),
    aimBelow('timed jobs late, p99', 1_000, stretch.late.p99),
    {
      kind: 'aim',
      about: 'the ceiling',
      expected: 'a rate at which the backlog grows',
      seen:
        highest === null
          ? `below ${lowest} jobs/s, the steps ended there`
          : lowest === null
            ? `above ${highest} jobs/s, the steps ended there`
            : `between ${highest} and ${lowest} jobs/s`,
      holds: highest !== null && lowest !== null,
    },
  ]
}

const COLUMNS = [
  column('part', 'part'),
  column('asked/s', 'rate'),
  column('accepted/s', 'acceptedPerSecond'),
  column('done/s', 'donePerSecond'),
  column('retried/s', 'retriedPerSecond'),
  column('ready at end', 'readyAtEnd'),
  column('most', 'readyMost'),
  column('running', 'running'),
  column('claim p50', 'claimP50Ms', 2),
  column('p99', 'claimP99Ms', 2),
  column('enqueue p50', 'enqueueP50Ms', 2),
  column('p99', 'enqueueP99Ms', 2),
  column('late p99', 'lateP99Ms', 1),
  column('server cores', 'serverCores', 2),
  column('WAL bytes/job', 'walBytesPerJob'),
]

function rowOf(part: string, { rate, stretch, evidence }: Step): GrowthRow {
  const { seconds, accepted, succeeded, dead, retried, claims, enqueues, late } = stretch
  return {
    part,
    rate,
    seconds,
    acceptedPerSecond: accepted / seconds,
    donePerSecond: (succeeded + dead) / seconds,
    retriedPerSecond: retried / seconds,
    readyAtEnd: stretch.readyAtEnd,
    readyMost: stretch.readyMost,
    running: stretch.runningMean,
    claimP50Ms: claims.p50,
    claimP99Ms: claims.p99,
    enqueueP50Ms: enqueues.p50,
    enqueueP99Ms: enqueues.p99,
    lateP50Ms: late.p50,
    lateP99Ms: late.p99,
    lateMaxMs: late.max,
    serverCores: evidence.cpu.server,
    workerCores: evidence.cpu.workers,
    walBytesPerJob: evidence.walBytesPerJob,
  }
}
