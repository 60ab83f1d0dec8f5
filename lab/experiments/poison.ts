// Experiment 6: one job in twenty always fails. Each is dead after exactly its attempts, and the healthy ones are as fast as without.

import { column } from '../bench/growth/measure.js'
import { median } from '../bench/statistics.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'
import { courseFigure } from './course.js'
import { type Evidence, EvidenceCollector } from './evidence.js'
import { defineExperiment, type Experiment, type ExperimentContext, expectNone, expectThat } from './experiment.js'
import { withFleet } from './fleet.js'
import { withGround } from './place.js'
import { withProducers } from './producers.js'
import { countEnds, waitUntilDone } from './proof.js'
import { type Sample, Sampler } from './sampler.js'

interface PoisonConfig {
  readonly rate: number
  readonly jobs: number
  /** How often each of the two is measured, in turns. */
  readonly rounds: number
  readonly processes: number
  readonly slots: number
  readonly deadlineSeconds: number
}

/** What lab/gen gives poison jobs. */
const ATTEMPTS = 3

export const poison: Experiment = defineExperiment<PoisonConfig>({
  about: 'jobs that always fail: dead after exactly their attempts, the others unharmed',
  longTakes: '8 minutes',
  short: { rate: 2_000, jobs: 1_000, rounds: 1, processes: 1, slots: 64, deadlineSeconds: 60 },
  long: { rate: 15_000, jobs: 400_000, rounds: 4, processes: 4, slots: 256, deadlineSeconds: 300 },
  async run(context) {
    const { config } = context
    const runs: Record<'with' | 'without', PoisonRun[]> = { with: [], without: [] }
    for (let round = 0; round < config.rounds; round++) {
      runs.without.push(await runOnce(context, false))
      runs.with.push(await runOnce(context, true))
    }
    const healthy = (which: 'with' | 'without') => median(runs[which].map(({ healthyPerSecond }) => healthyPerSecond))
    const ratio = healthy('with') / healthy('without')
    const all = [...runs.without, ...runs.with]
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
        {
          kind: 'aim',
          about: 'healthy jobs/s with poison over without',
          expected: 'at least 0.9',
          seen: ratio.toFixed(3),
          holds: ratio >= 0.9,
        },
      ],
      notes: [
        `${config.jobs} jobs each, enqueued at ${config.rate}/s; one in twenty fails always, ${ATTEMPTS} attempts. The two took turns; speeds are healthy jobs over the time until the last healthy one was done.`,
        'Processor time for each healthy job includes what the retries of poison jobs cost beside it: the difference between the two is their price.',
      ],
      figures: {
        poison: courseFigure(runs.with.at(-1)!.samples, {
          title: 'One job in twenty always fails',
          subtitle: `${config.processes} processes × ${config.slots} slots`,
          panels: ['speed', 'retries', 'depth'],
        }),
      },
      samples: runs.with.at(-1)!.samples,
      evidence: { 'without poison': runs.without.at(-1)!.evidence, 'with poison': runs.with.at(-1)!.evidence },
    }
  },
})

const CHECK = `
SELECT count(*) FILTER (WHERE type = 'poison' AND (attempt <> $1 OR reason <> 'attempts'))::integer AS wrong,
       count(*) FILTER (WHERE type <> 'poison')::integer AS healthy,
       count(*) FILTER (WHERE type = 'poison'
                          AND (SELECT count(*) FROM holdfast.attempts WHERE attempts.id = dead.id) <> $1)::integer AS missing
  FROM holdfast.dead`

const LAST_HEALTHY = `
SELECT extract(epoch FROM max(finished.finished_at) - min(jobs.created_at))::float8 AS seconds
  FROM holdfast.finished
  JOIN holdfast.jobs ON jobs.id = finished.id`

interface PoisonRun {
  readonly row: Readonly<Record<string, string | number | null>>
  readonly healthyPerSecond: number
  readonly isDone: boolean
  readonly dead: number
  readonly poisoned: number
  readonly wrongAttempts: number
  readonly missingAttempts: number
  readonly healthyDead: number
  readonly samples: readonly Sample[]
  readonly evidence: Evidence
}

function runOnce({ place, config, seed }: ExperimentContext<PoisonConfig>, hasPoison: boolean): Promise<PoisonRun> {
  const { rate, jobs, processes, slots, deadlineSeconds } = config
  const share = hasPoison ? 0.05 : 0
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
          const { rows: times } = await ground.client.query(LAST_HEALTHY)
          const { rows: planned } = await ground.client.query(
            "SELECT count(*)::integer AS count FROM holdfast.jobs WHERE type = 'poison'",
          )
          const healthyPerSecond = ends.succeeded / times[0].seconds
          const serverUs = evidence.cpu.server === null ? null : evidence.cpu.server * evidence.seconds * 1e6
          return {
            row: {
              what: hasPoison ? 'with poison' : 'without',
              healthy: ends.succeeded,
              healthyPerSecond,
              dead: ends.dead,
              workerUsPerJob: workersCpuUs / Math.max(1, ends.succeeded),
              serverUsPerJob: serverUs === null ? null : serverUs / Math.max(1, ends.succeeded),
            },
            ...{ healthyPerSecond, isDone, dead: ends.dead, evidence, poisoned: planned[0].count },
            ...{ wrongAttempts: rows[0].wrong, missingAttempts: rows[0].missing, healthyDead: rows[0].healthy },
            samples: [...sampler.samples],
          }
        }),
      ),
  )
}

const COLUMNS = [
  column('what', 'what'),
  column('healthy jobs', 'healthy'),
  column('healthy/s', 'healthyPerSecond'),
  column('dead', 'dead'),
  column('worker µs/healthy job', 'workerUsPerJob', 1),
  column('server µs/healthy job', 'serverUsPerJob', 1),
]
