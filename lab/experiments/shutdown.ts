// Experiment 8: a worker process receives SIGTERM with hundreds of jobs in flight. Each finishes in its drain time, or is released
// and run by another; none is lost, and none is settled twice.

import { column } from '../bench/growth/measure.js'
import { MIX_DEFAULT, type Mix } from '../gen/mix.js'
import { courseFigure } from './course.js'
import {
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  type ExperimentResult,
  expectNone,
  expectThat,
} from './experiment.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { type Producers, withProducers } from './producers.js'
import { pause, proveAll, waitUntilDone } from './proof.js'
import { loadAccepted, loadRuns, RECORD_TABLES } from './records.js'
import { Sampler } from './sampler.js'

interface ShutdownConfig {
  /** Jobs in flight in the process that ends, and in another. */
  readonly slots: number
  readonly jobs: number
  readonly rate: number
  readonly durationMs: readonly [number, number]
  readonly drainMs: number
  readonly deadlineSeconds: number
}

export const shutdown: Experiment = defineExperiment<ShutdownConfig>({
  about: 'SIGTERM with 200 jobs in flight: each finishes or runs elsewhere, none twice',
  longTakes: '1 minute',
  short: { slots: 200, jobs: 400, rate: 4_000, durationMs: [1_500, 4_000], drainMs: 1_000, deadlineSeconds: 60 },
  long: { slots: 200, jobs: 4_000, rate: 4_000, durationMs: [2_000, 8_000], drainMs: 3_000, deadlineSeconds: 300 },
  run: (context) => {
    const { place, config, seed } = context
    const { slots, drainMs, jobs, durationMs } = config
    const mix: Mix = {
      ...MIX_DEFAULT,
      shares: { fast: 0, slow: 1, flapping: 0, poison: 0, long: 0 },
      durationsMs: { ...MIX_DEFAULT.durationsMs, slow: durationMs },
    }
    return withGround(
      place,
      async (client) => {
        await client.query(RECORD_TABLES)
      },
      (ground) =>
        // Nothing is claimed ahead: a process runs every job it holds.
        withFleet({ url: ground.url, processes: 2, slots, prefetch: 0, drainMs, records: true }, (fleet) =>
          withProducers({ url: ground.url, seed, mix, jobs, records: true }, (producers) =>
            observe(context, { ground, fleet, producers }),
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

const IN_FLIGHT = `
WITH in_flight AS (
  SELECT began.id, began.fence
    FROM experiment.runs AS began
   WHERE began.mark = 'began'
     AND began.pid = $1
     AND began.at_ms <= $2
     AND NOT EXISTS (SELECT FROM experiment.runs AS ended
                      WHERE ended.mark = 'ended' AND ended.id = began.id AND ended.fence = began.fence AND ended.at_ms <= $2)
), signalled AS (
  SELECT in_flight.id, own.word,
         EXISTS (SELECT FROM experiment.runs AS later
                  WHERE later.mark = 'settled' AND later.word = 'succeeded' AND later.id = in_flight.id AND later.pid <> $1) AS elsewhere
    FROM in_flight
    LEFT JOIN experiment.runs AS own ON own.mark = 'settled' AND own.id = in_flight.id AND own.fence = in_flight.fence
)
SELECT count(*)::integer AS "inFlight",
       count(*) FILTER (WHERE word = 'succeeded')::integer AS finished,
       count(*) FILTER (WHERE word = 'ready' AND elsewhere)::integer AS released,
       count(*) FILTER (WHERE NOT coalesce(word = 'succeeded' OR word = 'ready' AND elsewhere, false))::integer AS neither
  FROM signalled`

async function observe({ config }: ExperimentContext<ShutdownConfig>, cast: Cast): Promise<ExperimentResult> {
  const { ground, fleet, producers } = cast
  const { client } = ground
  const { slots, jobs, rate, deadlineSeconds, drainMs } = config
  fleet.start()
  const sampler = await Sampler.open({ ...cast, queues: ['gen'] })
  await producers.setPace(rate)
  await waitForRunning(fleet, 2 * slots)
  const pid = fleet.firstPid
  const signalledMs = Date.now()
  const signalledSeconds = sampler.seconds
  const tookMs = await fleet.terminateFirst()
  const isDone = await waitUntilDone(client, ['gen'], deadlineSeconds * 1_000)
  await sampler.stop()
  const { accepted } = await producers.stop()
  await fleet.stop()
  await loadAccepted(client, producers.records)
  await loadRuns(client, fleet.records)
  const { rows } = await client.query(IN_FLIGHT, [pid, signalledMs])
  const proofs = await proveAll(client, ['lost', 'settledTwice', 'overlapping'])
  const { inFlight, finished, released, neither } = rows[0] as Record<string, number>
  return {
    columns: COLUMNS,
    rows: [{ accepted, inFlight: inFlight!, finished: finished!, released: released!, neither: neither!, tookMs }],
    verdicts: [
      expectThat('jobs accepted', String(jobs), String(accepted), accepted === jobs),
      expectThat('all jobs end', 'yes', isDone ? 'yes' : 'no', isDone),
      expectThat('jobs were in flight', 'yes', String(inFlight), inFlight! > 0),
      {
        kind: 'aim',
        about: 'jobs in flight at the signal',
        expected: String(slots),
        seen: String(inFlight),
        holds: inFlight! >= 0.95 * slots,
      },
      expectNone('in flight, and neither finished nor given back and run elsewhere', neither!),
      ...proofs.verdicts,
    ],
    notes: [
      `Jobs run ${config.durationMs[0] / 1_000} to ${config.durationMs[1] / 1_000} s; the drain time is ${drainMs / 1_000} s, so that some finish and some are given back. It ended ${(tookMs / 1_000).toFixed(1)} s after SIGTERM.`,
      ...proofs.notes,
    ],
    figures: {
      shutdown: courseFigure(sampler.samples, {
        title: 'A worker process stopped by SIGTERM',
        subtitle: `two processes × ${slots} slots, drain ${drainMs / 1_000} s`,
        panels: ['depth', 'speed'],
        marks: [{ x: signalledSeconds, label: 'SIGTERM' }],
      }),
    },
    samples: [...sampler.samples],
    evidence: {},
  }
}

// Bounded: on a slow machine the first jobs end before the last begin.
const RUNNING_MS_MAX = 10_000

async function waitForRunning(fleet: Fleet, count: number): Promise<void> {
  const endMs = performance.now() + RUNNING_MS_MAX
  let before = 0
  for (;;) {
    const { running } = await fleet.sample()
    if (running >= count || performance.now() > endMs || (running > 0 && running < before)) return
    before = running
    await pause(20)
  }
}

const COLUMNS = [
  column('accepted', 'accepted'),
  column('in flight', 'inFlight'),
  column('finished', 'finished'),
  column('given back, run elsewhere', 'released'),
  column('neither', 'neither'),
  column('ended after ms', 'tookMs'),
]
