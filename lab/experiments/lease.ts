// Experiment 9: jobs that run longer than the lease, once without extension and once with it. Without extension they are rescued
// while they run and run twice; with it none is.

import { column } from '../bench/growth/measure.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'
import type { Figure } from '../plot.js'
import { defineExperiment, type Experiment, type ExperimentContext, expectNone, expectThat } from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { type Producers, withProducers } from './producers.js'
import { countEnds, pause, prove, waitUntilDone } from './proof.js'
import { loadAccepted, loadRuns, RECORD_TABLES } from './records.js'

interface LeaseConfig {
  readonly jobs: number
  readonly leaseMs: number
  /** Longer than the lease and the two seconds in which expired leases are looked for. */
  readonly durationMs: number
  readonly processes: number
  readonly slots: number
  /** How long the run without extension is watched: its jobs may never end. */
  readonly watchSeconds: number
  readonly deadlineSeconds: number
}

export const lease: Experiment = defineExperiment<LeaseConfig>({
  about: 'jobs longer than the lease: doubled without extension, never with it',
  longTakes: '3 minutes',
  short: {
    jobs: 20,
    leaseMs: 10_000,
    durationMs: 13_500,
    processes: 1,
    slots: 32,
    watchSeconds: 14,
    deadlineSeconds: 60,
  },
  long: {
    jobs: 500,
    leaseMs: 5_000,
    durationMs: 15_000,
    processes: 4,
    slots: 256,
    watchSeconds: 60,
    deadlineSeconds: 120,
  },
  async run(context) {
    const { config } = context
    // Both run concurrently: each has its own database and processes, and both mostly wait.
    const [off, on] = await Promise.all([runOnce(context, false), runOnce(context, true)])
    return {
      columns: COLUMNS,
      rows: [off.row, on.row],
      verdicts: [
        expectThat('without extension, jobs run again while they run', 'some', String(off.again), off.again > 0),
        expectThat('with extension, all jobs end', 'yes', on.isDone ? 'yes' : 'no', on.isDone),
        expectThat(
          'with extension, jobs that succeed',
          String(config.jobs),
          String(on.succeeded),
          on.succeeded === config.jobs,
        ),
        expectNone('with extension, jobs taken back while they run', on.takenBack),
        expectNone('with extension, jobs that run more than once', on.again),
        expectNone('with extension, jobs that run twice at the same time', on.overlapping),
      ],
      notes: [
        `Jobs of ${config.durationMs / 1_000} s under a lease of ${config.leaseMs / 1_000} s. Extension is switched off in the lab alone: the store's extend answers as if it had, and does nothing. A worker asks every 0.7 s whether its leases hold, so the first of two runs is notified soon; what they did at the same time until then is the double run. Jobs that were taken back are suspects and have a quarter of the slots, so fewer may run again than were taken back.`,
      ],
      figures: { lease: figureOf(config, off.began, on.began) },
      samples: [
        { name: 'without extension', began: off.began },
        { name: 'with extension', began: on.began },
      ],
      evidence: {},
    }
  },
})

function runOnce({ place, config, seed }: ExperimentContext<LeaseConfig>, isExtended: boolean) {
  const { processes, slots, leaseMs, durationMs, jobs } = config
  const mix: Mix = {
    ...MIX_DEFAULT,
    shares: { fast: 0, slow: 0, flapping: 0, poison: 0, long: 1 },
    durationsMs: { ...MIX_DEFAULT.durationsMs, long: [durationMs, durationMs] },
  }
  const fleet = { processes, slots, leaseMs, holdMs: leaseMs, extends: isExtended, records: true }
  return withGround(
    place,
    async (client) => {
      await client.query(RECORD_TABLES)
    },
    (ground) =>
      withFleet({ url: ground.url, ...fleet }, (members) =>
        withProducers({ url: ground.url, seed, mix, jobs, records: true }, (producers) =>
          observe(config, { ground, fleet: members, producers }, isExtended),
        ),
      ),
  )
}

interface Cast {
  readonly ground: Ground
  readonly fleet: Fleet
  readonly producers: Producers
}

const AGAIN = `
SELECT count(*)::integer AS again
  FROM (SELECT id FROM experiment.runs WHERE mark = 'began' GROUP BY id HAVING count(*) > 1) AS jobs`

// A lease that expired under a started job counts as a crash of its worker.
const TAKEN_BACK = `
SELECT (SELECT count(*) FROM holdfast.ready WHERE crashes > 0)::integer
     + (SELECT count(*) FROM holdfast.running WHERE crashes > 0)::integer
     + (SELECT count(*) FROM holdfast.scheduled WHERE crashes > 0)::integer
     + (SELECT count(*) FROM holdfast.dead WHERE crashes > 0)::integer
     + (SELECT count(*) FROM holdfast.finished WHERE crashes > 0)::integer AS jobs`

const BEGAN = `
SELECT floor((at_ms - min(at_ms) OVER ()) / 1000)::integer AS second, attempt
  FROM experiment.runs
 WHERE mark = 'began'
 ORDER BY 1`

async function observe(config: LeaseConfig, { ground, fleet, producers }: Cast, isExtended: boolean) {
  const { client } = ground
  const { jobs, deadlineSeconds } = config
  fleet.start()
  await producers.setPace(1_000)
  let isDone = false
  if (isExtended) {
    await producers.whenAccepted(jobs, deadlineSeconds)
    isDone = await waitUntilDone(client, ['gen'], deadlineSeconds * 1_000)
  } else await waitForSecondRun(ground, config)
  const { accepted } = await producers.stop()
  await fleet.kill()
  await loadAccepted(client, producers.records)
  await loadRuns(client, fleet.records)
  const { rows } = await client.query(AGAIN)
  const { rows: began } = await client.query<{ second: number; attempt: number }>(BEGAN)
  const overlaps = await prove(client, 'overlapping')
  const ends = await countEnds(client)
  const { rows: taken } = await client.query(TAKEN_BACK)
  const again = rows[0].again as number
  const takenBack = taken[0].jobs as number
  const row = {
    extension: isExtended ? 'on' : 'off',
    ...{ accepted, takenBack, runs: began.length, again, succeeded: ends.succeeded },
    longestOverlapMs: Math.max(0, ...overlaps.rows.map((found) => (found as { overlap_ms: number }).overlap_ms)),
  }
  return { row, again, takenBack, overlapping: overlaps.rows.length, isDone, succeeded: ends.succeeded, began }
}

const SECOND_RUN = 'SELECT EXISTS (SELECT FROM holdfast.running WHERE attempt > 1) AS seen'

/** Watches until a rescued job has started again; on a slow machine that takes longer. */
async function waitForSecondRun({ client }: Ground, { watchSeconds, deadlineSeconds }: LeaseConfig): Promise<void> {
  await pause(watchSeconds * 1_000)
  const endMs = performance.now() + deadlineSeconds * 1_000
  while (performance.now() < endMs) {
    const { rows } = await client.query(SECOND_RUN)
    if (rows[0].seen) return
    await pause(200)
  }
}

const COLUMNS = [
  column('extension', 'extension'),
  column('jobs', 'accepted'),
  column('runs', 'runs'),
  column('taken back while running', 'takenBack'),
  column('jobs run again', 'again'),
  column('succeeded', 'succeeded'),
  column('longest overlap ms', 'longestOverlapMs'),
]

type Began = readonly { readonly second: number; readonly attempt: number }[]

function figureOf({ leaseMs, durationMs, jobs }: LeaseConfig, off: Began, on: Began): Figure {
  const last = Math.max(0, ...[...off, ...on].map(({ second }) => second))
  const line = (name: string, began: Began) => ({
    name,
    points: Array.from({ length: last + 1 }, (_, second) => {
      return [second, began.filter((run) => run.second <= second).length] as const
    }),
  })
  return {
    title: 'Runs of jobs that are longer than the lease',
    subtitle: `${jobs} jobs of ${durationMs / 1_000} s, lease ${leaseMs / 1_000} s`,
    x: { label: 'seconds', scale: 'linear' },
    marks: [{ x: leaseMs / 1_000, label: 'lease over' }],
    panels: [{ label: 'runs begun', series: [line('without extension', off), line('with extension', on)] }],
  }
}
