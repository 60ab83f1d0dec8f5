// Experiment 5: some of the jobs need a dependency that is down for a while. Their retries are spread over time instead of coming
// together, all of them succeed when it is back, and none dies before.

import type { RetryOptions } from '../../src/index.js'
import { column } from '../bench/growth/measure.js'
import { MIX_DEFAULT } from '../gen/mix.js'
import type { Figure } from '../plot.js'
import { defineExperiment, type Experiment, type ExperimentContext, expectNone, expectThat } from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { type Producers, withProducers } from './producers.js'
import { countEnds, pause, waitUntilDone } from './proof.js'
import { loadAccepted, loadRuns, RECORD_TABLES } from './records.js'

interface FlappingConfig {
  readonly rate: number
  /** How long jobs are enqueued before the outage, during it, and after it. */
  readonly seconds: number
  /** How many jobs arrive together when it goes down, as after a deploy or an import. Jobs that fail together would come back
   *  together. */
  readonly burstRate: number
  readonly burstSeconds: number
  readonly downSeconds: number
  /** It stays down until this many attempts have failed, however long that takes. */
  readonly failuresMin: number
  readonly maxAttempts: number
  readonly baseMs: number
  readonly capMs: number
  readonly processes: number
  readonly slots: number
  readonly deadlineSeconds: number
}

export const flapping: Experiment = defineExperiment<FlappingConfig>({
  about: 'a dependency that fails and recovers: retries spread, none dead before',
  longTakes: '5 minutes',
  short: {
    rate: 50,
    seconds: 1,
    burstRate: 4_000,
    burstSeconds: 0.25,
    downSeconds: 3,
    failuresMin: 20,
    maxAttempts: 25,
    baseMs: 200,
    capMs: 1_000,
    processes: 1,
    slots: 64,
    deadlineSeconds: 60,
  },
  long: {
    rate: 500,
    seconds: 20,
    burstRate: 20_000,
    burstSeconds: 0.5,
    downSeconds: 60,
    failuresMin: 1_000,
    maxAttempts: 25,
    baseMs: 1_000,
    capMs: 15_000,
    processes: 2,
    slots: 256,
    deadlineSeconds: 300,
  },
  async run(context) {
    const { config } = context
    const spread = await runOnce(context, true)
    const control = await runOnce(context, false)
    const both = [spread, control]
    return {
      columns: COLUMNS,
      rows: both.map(({ row }) => row),
      verdicts: both.flatMap(({ name, ends, isDone, accepted, flapped }) => [
        expectThat(`${name}: all jobs end`, 'yes', isDone ? 'yes' : 'no', isDone),
        expectNone(`${name}: jobs dead, before recovery or after`, ends.dead),
        expectThat(`${name}: jobs that succeed`, String(accepted), String(ends.succeeded), ends.succeeded === accepted),
        expectThat(`${name}: the dependency was missed`, 'yes', `${flapped} failed attempts`, flapped > 0),
      ]),
      notes: [
        `One job in twenty needs the dependency, which is away for ${config.downSeconds} s; in the first ${config.burstSeconds} s of them jobs come at ${config.burstRate}/s. Backoff from ${config.baseMs} ms, doubled up to ${config.capMs} ms, ${config.maxAttempts} attempts.`,
        'most/mean compares the fullest 100 ms with the average one. Without jitter the jobs that failed together come back together.',
      ],
      figures: { flapping: figureOf(config, spread.perTenth, control.perTenth) },
      samples: both.map(({ name, perTenth }) => ({ name, perTenth })),
      evidence: {},
    }
  },
})

function runOnce(context: ExperimentContext<FlappingConfig>, hasJitter: boolean) {
  const { config, place, seed } = context
  const { processes, slots, maxAttempts, baseMs, capMs } = config
  const retry: RetryOptions = { backoff: 'exponential', base: baseMs, cap: capMs, jitter: hasJitter }
  const durationsMs = { ...MIX_DEFAULT.durationsMs, slow: [50, 200] as const }
  const mix = { ...MIX_DEFAULT, durationsMs, shares: { fast: 0.75, slow: 0.2, flapping: 0.05, poison: 0, long: 0 } }
  return withGround(
    place,
    async (client) => {
      await client.query(RECORD_TABLES)
    },
    (ground) =>
      withFleet({ url: ground.url, processes, slots, records: true }, (fleet) =>
        withProducers(
          {
            ...{ url: ground.url, seed, mix, records: true, flapsOnlyByDependency: true },
            options: { maxAttempts, retry },
          },
          (producers) => observe(config, { ground, fleet, producers }, hasJitter),
        ),
      ),
  )
}

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
}

const RETRIES = `
SELECT floor((at_ms - $1) / 100)::integer AS tenth, count(*)::integer AS count
  FROM experiment.runs
 WHERE mark = 'began'
   AND word = 'flapping'
   AND attempt > 1
 GROUP BY 1
 ORDER BY 1`

async function observe(config: FlappingConfig, { ground, fleet, producers }: Cast, hasJitter: boolean) {
  const { client } = ground
  const { seconds, downSeconds, rate, deadlineSeconds } = config
  fleet.start()
  await producers.setPace(rate)
  await pause(seconds * 1_000)
  const downMs = Date.now()
  await fleet.setDependency(true)
  await producers.setPace(config.burstRate)
  await pause(config.burstSeconds * 1_000)
  await producers.setPace(rate)
  await pause((downSeconds - config.burstSeconds) * 1_000)
  await waitForFailures(fleet, config)
  await fleet.setDependency(false)
  const recoveredMs = Date.now()
  await pause(seconds * 1_000)
  await producers.setPace(0)
  const isDone = await waitUntilDone(client, ['gen'], deadlineSeconds * 1_000)
  const doneMs = Date.now()
  const { accepted } = await producers.stop()
  await fleet.stop()
  await loadAccepted(client, producers.records)
  await loadRuns(client, fleet.records)
  const ends = await countEnds(client)
  const { rows: perTenth } = await client.query<{ tenth: number; count: number }>(RETRIES, [downMs])
  const flapped = perTenth.reduce((sum, { count }) => sum + count, 0)
  const most = Math.max(0, ...perTenth.map(({ count }) => count))
  // The first wait is short with and without jitter. A herd becomes visible when waits have grown.
  const lateMost = Math.max(0, ...perTenth.filter(({ tenth }) => tenth >= 5 * downSeconds).map(({ count }) => count))
  const span = perTenth.length === 0 ? 1 : perTenth.at(-1)!.tenth - perTenth[0]!.tenth + 1
  const name = hasJitter ? 'with jitter' : 'without'
  const row = {
    ...{ name, accepted, succeeded: ends.succeeded, dead: ends.dead, retries: flapped, most, lateMost },
    mean: flapped / span,
    unevenness: most / Math.max(0.001, flapped / span),
    afterRecoverySeconds: (doneMs - recoveredMs) / 1_000,
  }
  return { name, row, ends, isDone, accepted, flapped, perTenth }
}

async function waitForFailures(fleet: Fleet, { failuresMin, deadlineSeconds }: FlappingConfig): Promise<void> {
  const endMs = performance.now() + deadlineSeconds * 1_000
  for (;;) {
    const { counts } = await fleet.sample()
    if (counts.retried >= failuresMin || performance.now() > endMs) return
    await pause(100)
  }
}

const COLUMNS = [
  column('retries', 'name'),
  column('accepted', 'accepted'),
  column('succeeded', 'succeeded'),
  column('dead', 'dead'),
  column('retries', 'retries'),
  column('most in 100 ms', 'most'),
  column('most in the second half', 'lateMost'),
  column('mean', 'mean', 2),
  column('most/mean', 'unevenness', 1),
  column('all done after recovery, s', 'afterRecoverySeconds', 1),
]

type Tenths = readonly { readonly tenth: number; readonly count: number }[]

function figureOf({ downSeconds, rate }: FlappingConfig, spread: Tenths, control: Tenths): Figure {
  const last = Math.max(0, ...[...spread, ...control].map(({ tenth }) => tenth))
  const panel = (label: string, tenths: Tenths) => {
    const counts = new Map(tenths.map(({ tenth, count }) => [tenth, count]))
    const points = Array.from({ length: last + 1 }, (_, tenth) => [tenth / 10, counts.get(tenth) ?? 0] as const)
    return { label, series: [{ name: 'retries', points }] }
  }
  return {
    title: 'Retries while a dependency is away',
    subtitle: `a burst as it goes, then ${rate} jobs/s; one in twenty needs it; it is away for ${downSeconds} s from 0 on`,
    x: { label: 'seconds', scale: 'linear' },
    marks: [{ x: downSeconds, label: 'back' }],
    panels: [panel('retries in 100 ms, full jitter', spread), panel('retries in 100 ms, without (control)', control)],
  }
}
