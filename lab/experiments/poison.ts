// Experiment 6: one job in twenty always fails. Each is dead after exactly its attempts, and the healthy ones are as fast as
// without it. Measured with and without spare processor time.

import { column } from '../bench/growth/measure.js'
import { median } from '../bench/statistics.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'
import { courseFigure } from './course.js'
import { type Evidence, EvidenceCollector } from './evidence.js'
import {
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  expectNone,
  expectThat,
  type Verdict,
} from './experiment.js'
import { withFleet } from './fleet.js'
import { withGround } from './place.js'
import { withProducers } from './producers.js'
import { countEnds, waitUntilDone } from './proof.js'
import { type Sample, Sampler } from './sampler.js'

interface PoisonConfig {
  /** More jobs than the fleet can do. */
  readonly full: Load
  /** About half of that. */
  readonly half: Load
  readonly processes: number
  readonly slots: number
  readonly deadlineSeconds: number
}

interface Load {
  /** Healthy jobs each second. */
  readonly rate: number
  /** Healthy jobs. */
  readonly jobs: number
  /** How often it is measured with and without poison, in turns. */
  readonly rounds: number
}

/** The attempts that lab/gen gives poison jobs. */
const ATTEMPTS = 3
/** The share of poison jobs among all. */
const SHARE = 0.05

export const poison: Experiment = defineExperiment<PoisonConfig>({
  about: 'jobs that always fail: dead after exactly their attempts, the others unharmed',
  longTakes: '8 minutes',
  short: {
    full: { rate: 2_000, jobs: 1_000, rounds: 1 },
    half: { rate: 500, jobs: 500, rounds: 1 },
    processes: 1,
    slots: 64,
    deadlineSeconds: 60,
  },
  long: {
    full: { rate: 15_000, jobs: 400_000, rounds: 4 },
    half: { rate: 5_000, jobs: 150_000, rounds: 3 },
    processes: 4,
    slots: 256,
    deadlineSeconds: 300,
  },
  async run(context) {
    const { config } = context
    const full = await inTurns(context, 'full')
    const half = await inTurns(context, 'half')
    const all = [...full.without, ...full.with, ...half.without, ...half.with]
    const sum = (read: (run: PoisonRun) => number) => all.reduce((total, run) => total + read(run), 0)
    const planned = sum(({ poisoned }) => poisoned)
    const dead = sum((run) => run.dead)
    return {
      columns: COLUMNS,
      rows: all.map((run) => run.row),
      verdicts: [
        expectThat(
          'all jobs end',
          'yes',
          String(all.every(({ isDone }) => isDone)),
          all.every(({ isDone }) => isDone),
        ),
        expectThat('poison jobs in the dead-letter queue', String(planned), String(dead), dead === planned && dead > 0),
        expectNone(
          `poison jobs dead with another number of attempts than ${ATTEMPTS}`,
          sum((run) => run.wrongAttempts),
        ),
        expectNone(
          'poison jobs without a record of each failed attempt',
          sum((run) => run.missingAttempts),
        ),
        expectNone(
          'healthy jobs that died',
          sum((run) => run.healthyDead),
        ),
        atLeast('at half load, healthy jobs/s with poison over without', 0.99, ratioOf(half, 'healthyPerSecond')),
        {
          kind: 'aim',
          about: 'at half load, p99 from enqueue to done of healthy jobs, with over without',
          expected: 'at most 2',
          seen: ratioOf(half, 'p99Ms').toFixed(2),
          holds: ratioOf(half, 'p99Ms') <= 2,
        },
        atLeast('at full load, healthy jobs/s with poison over without', 0.9, ratioOf(full, 'healthyPerSecond')),
      ],
      notes: [
        `Full load: about ${config.full.jobs} healthy jobs offered at ${config.full.rate}/s; half: ${config.half.jobs} at ${config.half.rate}/s. Poison comes on top of them, one job in twenty, ${ATTEMPTS} attempts. With and without took turns; speeds are healthy jobs over the time until the last healthy one was done.`,
        `Healthy jobs/s with poison over without, round by round: full load ${roundsOf(full)}; half load ${roundsOf(half)}.`,
        'Processor time for each healthy job includes what the retries of poison jobs cost beside it: the difference between the two is their price.',
      ],
      figures: {
        poison: courseFigure(full.with.at(-1)!.samples, {
          title: 'One job in twenty always fails',
          subtitle: `${config.processes} processes × ${config.slots} slots`,
          panels: ['speed', 'retries', 'depth'],
        }),
      },
      samples: full.with.at(-1)!.samples,
      evidence: { 'without poison': full.without.at(-1)!.evidence, 'with poison': full.with.at(-1)!.evidence },
    }
  },
})

type Turns = Readonly<Record<'with' | 'without', readonly PoisonRun[]>>

async function inTurns(context: ExperimentContext<PoisonConfig>, load: 'full' | 'half'): Promise<Turns> {
  const runs: Record<'with' | 'without', PoisonRun[]> = { with: [], without: [] }
  for (let round = 0; round < context.config[load].rounds; round++) {
    // Each is first as often as second: the machine may slow down or speed up during a round.
    const order = round % 2 === 0 ? ([false, true] as const) : ([true, false] as const)
    for (const hasPoison of order) runs[hasPoison ? 'with' : 'without'].push(await runOnce(context, load, hasPoison))
  }
  return runs
}

function ratioOf(turns: Turns, figure: 'healthyPerSecond' | 'p99Ms'): number {
  const middle = (runs: readonly PoisonRun[]) => median(runs.map((run) => run[figure]))
  return middle(turns.with) / middle(turns.without)
}

/** The ratios of single rounds, for a reader who wants to know how much they differ. */
function roundsOf(turns: Turns): string {
  const ratios = turns.with.map((run, round) => run.healthyPerSecond / turns.without[round]!.healthyPerSecond)
  return ratios.map((ratio) => ratio.toFixed(3)).join(', ')
}

function atLeast(about: string, least: number, seen: number): Verdict {
  return { kind: 'aim', about, expected: `at least ${least}`, seen: seen.toFixed(3), holds: seen >= least }
}

const CHECK = `
SELECT count(*) FILTER (WHERE type = 'poison' AND (attempt <> $1 OR reason <> 'attempts'))::integer AS wrong,
       count(*) FILTER (WHERE type <> 'poison')::integer AS healthy,
       count(*) FILTER (WHERE type = 'poison'
                          AND (SELECT count(*) FROM holdfast.attempts WHERE attempts.id = dead.id) <> $1)::integer AS missing
  FROM holdfast.dead`

const HEALTHY = `
SELECT extract(epoch FROM max(finished.finished_at) - min(jobs.created_at))::float8 AS seconds,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM finished.finished_at - jobs.created_at) * 1000)::float8
         AS p99_ms
  FROM holdfast.finished
  JOIN holdfast.jobs ON jobs.id = finished.id`

interface PoisonRun {
  readonly row: Readonly<Record<string, string | number | null>>
  readonly healthyPerSecond: number
  /** From enqueue to done. */
  readonly p99Ms: number
  readonly isDone: boolean
  readonly dead: number
  readonly poisoned: number
  readonly wrongAttempts: number
  readonly missingAttempts: number
  readonly healthyDead: number
  readonly samples: readonly Sample[]
  readonly evidence: Evidence
}

function runOnce(
  { place, config, seed }: ExperimentContext<PoisonConfig>,
  load: 'full' | 'half',
  hasPoison: boolean,
): Promise<PoisonRun> {
  const { processes, slots, deadlineSeconds } = config
  const share = hasPoison ? SHARE : 0
  // In addition to the healthy ones, so that their number is the same with and without poison.
  const rate = Math.round(config[load].rate / (1 - share))
  const jobs = Math.round(config[load].jobs / (1 - share))
  const mix: Mix = { ...MIX_DEFAULT, shares: { fast: 1 - share, slow: 0, flapping: 0, poison: share, long: 0 } }
  return withGround(
    place,
    async () => {},
    (ground) =>
      withFleet({ url: ground.url, processes, slots }, (fleet) =>
        withProducers({ url: ground.url, seed, mix, jobs }, async (producers) => {
          fleet.start()
          const collector = await EvidenceCollector.open(ground.url, await place.serverPid())
          const sampler = await Sampler.open({ ground, fleet, producers, queues: ['gen'] })
          await producers.setPace(rate)
          await producers.whenAccepted(jobs, deadlineSeconds)
          const isDone = await waitUntilDone(ground.client, ['gen'], deadlineSeconds * 1_000)
          const { workersCpuUs, producersCpuUs } = await sampler.cut()
          await sampler.stop()
          const ends = await countEnds(ground.client)
          const evidence = await collector.end({ jobs: ends.succeeded, workersCpuUs, producersCpuUs })
          const { rows } = await ground.client.query(CHECK, [ATTEMPTS])
          const { rows: healthy } = await ground.client.query(HEALTHY)
          const { rows: planned } = await ground.client.query(
            "SELECT count(*)::integer AS count FROM holdfast.jobs WHERE type = 'poison'",
          )
          const healthyPerSecond = ends.succeeded / healthy[0].seconds
          const p99Ms: number = healthy[0].p99_ms
          const serverUs = evidence.cpu.server === null ? null : evidence.cpu.server * evidence.seconds * 1e6
          return {
            row: {
              load,
              what: hasPoison ? 'with poison' : 'without',
              healthy: ends.succeeded,
              healthyPerSecond,
              p99Ms,
              dead: ends.dead,
              workerUsPerJob: workersCpuUs / Math.max(1, ends.succeeded),
              serverUsPerJob: serverUs === null ? null : serverUs / Math.max(1, ends.succeeded),
            },
            ...{ healthyPerSecond, p99Ms, isDone, dead: ends.dead, evidence, poisoned: planned[0].count },
            ...{ wrongAttempts: rows[0].wrong, missingAttempts: rows[0].missing, healthyDead: rows[0].healthy },
            samples: [...sampler.samples],
          }
        }),
      ),
  )
}

const COLUMNS = [
  column('load', 'load'),
  column('what', 'what'),
  column('healthy jobs', 'healthy'),
  column('healthy/s', 'healthyPerSecond'),
  column('p99 to done, ms', 'p99Ms', 1),
  column('dead', 'dead'),
  column('worker µs/healthy job', 'workerUsPerJob', 1),
  column('server µs/healthy job', 'serverUsPerJob', 1),
]
