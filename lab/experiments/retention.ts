// Experiment 11: a large day is dropped under load. Which calls wait for it, and how long?

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Store } from '../../src/core/store.js'
import { defineJob, openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { column, type GrowthRow, pointsOf } from '../bench/growth/measure.js'
import { PAYLOAD } from '../bench/payloads.js'
import { say } from '../say.js'
import {
  aimBelow,
  defineExperiment,
  type Experiment,
  type ExperimentResult,
  expectNone,
  expectThat,
} from './experiment.js'
import { Histogram } from './histogram.js'
import { type Ground, withGround } from './place.js'

interface RetentionConfig {
  /** Jobs of the day that finished on it. */
  readonly finished: number
  /** Jobs of the day that must live on: three fifths dead, the rest scheduled or ready in a queue without a worker. */
  readonly live: number
  /** Jobs enqueued a second, and run. */
  readonly rate: number
  /** How long the load runs before the day may be dropped, for comparison. */
  readonly calmSeconds: number
  readonly secondsMax: number
}

const CALLS = ['enqueue', 'claim', 'settle', 'promote', 'expired', 'due', 'stepBulk', 'sample', 'horizon'] as const
const KINDS = ['claim', 'settle', 'upkeep'] as const
const DAY = "((clock_timestamp() AT TIME ZONE 'UTC')::date - 12)"
const CHUNK = 500_000
const EVERY_MS = 10

export const retention: Experiment = defineExperiment<RetentionConfig>({
  about: 'how long claims, settlements and upkeep wait while a large day is dropped',
  longTakes: '9 minutes',
  short: { finished: 20_000, live: 12_000, rate: 200, calmSeconds: 1, secondsMax: 240 },
  long: { finished: 30_000_000, live: 50_000, rate: 2_000, calmSeconds: 30, secondsMax: 1_800 },
  adjust: (config, { rate }) => ({ ...config, rate: rate ?? config.rate }),
  run: ({ place, config }) =>
    withGround(
      place,
      (client) => seedDay(client, config),
      (ground) => measure(ground, config),
    ),
})

async function measure({ url, client }: Ground, config: RetentionConfig): Promise<ExperimentResult> {
  const calm = await load(url, config, '3650d', () => sleep(config.calmSeconds * 1_000, true))
  const began = performance.now()
  const going = await load(url, config, '7d', () => dayIsGone(client))
  const tookSeconds = (performance.now() - began) / 1_000
  const left = await count(client)
  const rows = CALLS.map((call) => rowOf(call, calm.times.get(call)!, going.times.get(call)!))
  const longest = (calls: readonly string[]) => Math.max(...calls.map((call) => going.times.get(call)!.at(1) || 0))
  return {
    columns: COLUMNS,
    rows,
    verdicts: [
      expectThat('the day is dropped', 'yes', going.isOver ? 'yes' : 'no', going.isOver),
      expectThat('live jobs of it that are there', String(config.live), String(left.live), left.live === config.live),
      expectNone('jobs without a state, or in two', left.broken),
      expectNone('jobs of the load that were lost', going.enqueued - going.done),
      aimBelow('longest claim meanwhile, ms', 1_000, longest(['claim'])),
      aimBelow('longest settlement meanwhile, ms', 1_000, longest(['settle'])),
      aimBelow('longest call of upkeep meanwhile, ms', 1_000, longest(CALLS.slice(3))),
    ],
    notes: [
      `${config.finished.toLocaleString('en')} jobs that finished 12 days ago and ${config.live.toLocaleString('en')} that live on. From the start of upkeep to the last step ${tookSeconds.toFixed(0)} s, at ${(going.enqueued / tookSeconds).toFixed(0)} jobs/s; client, worker and upkeep in one process.`,
      'Times are those of whole calls, waiting for a core and for the disk included.',
    ],
    figures: {
      retention: {
        title: 'The longest call of each second while a large day is dropped',
        subtitle: `${config.finished.toLocaleString('en')} finished and ${config.live.toLocaleString('en')} live jobs; ${config.rate.toLocaleString('en')} jobs/s`,
        x: { label: 'seconds', scale: 'linear' },
        panels: KINDS.map((kind) => ({
          label: `${kind}, ms`,
          series: [{ name: kind, points: pointsOf(going.seconds, 'second', kind) }],
        })),
      },
    },
    samples: going.seconds,
    evidence: {},
  }
}

const COLUMNS = [
  column('call', 'call'),
  column('before: calls', 'calmCount'),
  column('p99 ms', 'calmP99Ms', 1),
  column('longest ms', 'calmMaxMs', 0),
  column('meanwhile: calls', 'count'),
  column('p99 ms', 'p99Ms', 1),
  column('longest ms', 'maxMs', 0),
]

function rowOf(call: string, calm: Histogram, going: Histogram): GrowthRow {
  return {
    call,
    calmCount: calm.count,
    calmP99Ms: calm.at(0.99),
    calmMaxMs: calm.at(1),
    count: going.count,
    p99Ms: going.at(0.99),
    maxMs: going.at(1),
  }
}

// $1 the first number, $2 the last, $3 how many milliseconds lie between two.
const idsOf = (variant: 'a000' | '8000') => `
SELECT number, moment,
       (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '7000' || '${variant}' || lpad(to_hex(number), 12, '0'))::uuid AS id
  FROM (SELECT number, ${DAY}::timestamp AT TIME ZONE 'UTC' + number * $3::float8 * interval '1 millisecond' AS moment
          FROM generate_series($1::bigint, $2::bigint) AS number) AS line`
const jobsSql = (ids: string) => `
INSERT INTO holdfast.jobs (id, created_at, position, priority, version, queue, type, payload)
SELECT id, moment, number, 0, 1, $4, 'noop', $5::json FROM (${ids}) AS line`
const FINISHED = `
INSERT INTO holdfast.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker)
SELECT id, moment + interval '12 milliseconds', moment + interval '10 milliseconds', 1, 1, 0, 'succeeded', 'worker:1:00000000'
  FROM (${idsOf('8000')}) AS line`
const LIVE = [
  `INSERT INTO holdfast.dead (id, died_at, fence, priority, attempt, crashes, reason, queue, type)
   SELECT id, moment, 1, 0, 1, 0, 'attempts', 'kept', 'noop' FROM (${idsOf('a000')}) AS line WHERE number % 5 < 3`,
  `INSERT INTO holdfast.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
   SELECT id, clock_timestamp() + interval '1 year', 0, 0, 0, false, 'kept', 'noop' FROM (${idsOf('a000')}) AS line WHERE number % 5 = 3`,
  `INSERT INTO holdfast.ready (id, position, since, priority, moved, queue, type)
   SELECT id, number, moment, 0, false, 'kept', 'noop' FROM (${idsOf('a000')}) AS line WHERE number % 5 = 4`,
]

/** A day as the product would have left it, written in bulk by SQL. Live jobs are spread over it. */
async function seedDay(client: pg.Client, { finished, live }: RetentionConfig): Promise<void> {
  await client.query(`SELECT holdfast.open_day(${DAY})`)
  const payload = JSON.stringify(PAYLOAD)
  for (let from = 1; from <= finished; from += CHUNK) {
    const range = [from, Math.min(finished, from + CHUNK - 1), 86_000_000 / finished]
    await client.query(jobsSql(idsOf('8000')), [...range, 'default', payload])
    await client.query(FINISHED, range)
    say(`  ${range[1]!.toLocaleString('en')} finished jobs written`)
  }
  const range = [1, live, 86_000_000 / live]
  await client.query(jobsSql(idsOf('a000')), [...range, 'kept', payload])
  for (const insert of LIVE) await client.query(insert, range)
  await client.query('CHECKPOINT')
}

interface Load {
  /** The longest call of each kind that ended in each second. */
  readonly seconds: readonly GrowthRow[]
  readonly times: ReadonlyMap<string, Histogram>
  readonly enqueued: number
  readonly done: number
  readonly isOver: boolean
}

/** Enqueues and runs jobs until `isOver` returns true or it takes too long, then until all are done. */
async function load(
  url: string,
  { rate, secondsMax }: RetentionConfig,
  keep: string,
  isOver: () => Promise<boolean>,
): Promise<Load> {
  const times = new Map<string, Histogram>(CALLS.map((call) => [call, new Histogram()]))
  const seconds: Record<string, number>[] = []
  const began = performance.now()
  const note = (call: string, ms: number) => {
    times.get(call)!.add(ms)
    const second = Math.floor((performance.now() - began) / 1_000)
    const kind = call === 'claim' || call === 'settle' ? call : 'upkeep'
    if (call === 'enqueue') return
    seconds[second] ??= { second }
    seconds[second][kind] = Math.max(seconds[second][kind] ?? 0, ms)
  }
  const holdfast = await openHoldfast(timed(await postgresStore(url), note), { retention: keep as `${number}d` })
  const job = defineJob<object>('noop')
  let [enqueued, done] = [0, 0]
  const handler = job.handle(async () => {
    done++
  })
  await holdfast.worker({ handlers: [handler], concurrency: 200 }).start()
  let over = false
  const watching = (async () => {
    while (!over && performance.now() - began < secondsMax * 1_000) {
      over = await isOver()
      if (!over) await sleep(500)
    }
    over = true
  })()
  while (!over) {
    const due = Math.min(1_000, Math.floor(((performance.now() - began) / 1_000) * rate) - enqueued)
    if (due > 0) {
      enqueued += due
      await holdfast.enqueueMany(
        job,
        Array.from({ length: due }, () => PAYLOAD),
      )
    }
    await sleep(EVERY_MS)
  }
  await watching
  const isGone = await isOver()
  for (let wait = 0; wait < 600 && done < enqueued; wait++) await sleep(100)
  await holdfast.close()
  return { seconds: seconds.filter((second) => second !== undefined), times, enqueued, done, isOver: isGone }
}

/** The store with each call timed. */
function timed(store: Store, note: (call: string, ms: number) => void): Store {
  return new Proxy(store, {
    get(target, name, receiver) {
      const method = Reflect.get(target, name, receiver)
      const call = String(name)
      if (typeof method !== 'function' || !(CALLS as readonly string[]).includes(call)) return method
      return async (...values: unknown[]) => {
        const startMs = performance.now()
        try {
          return await method.apply(target, values)
        } finally {
          note(call, performance.now() - startMs)
        }
      }
    },
  })
}

async function dayIsGone(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT to_regclass('holdfast.jobs_' || to_char(${DAY}, 'YYYYMMDD')) IS NULL
            AND NOT EXISTS (SELECT FROM holdfast.closing_days) AS gone`,
  )
  return rows[0].gone
}

async function count(client: pg.Client): Promise<{ live: number; broken: number }> {
  const states = ['blocked', 'scheduled', 'ready', 'running', 'dead'].map((table) => `SELECT id FROM holdfast.${table}`)
  const { rows } = await client.query(
    `WITH states AS MATERIALIZED (${states.join(' UNION ALL ')})
     SELECT (SELECT count(*)::integer FROM holdfast.jobs WHERE queue = 'kept') AS live,
            (SELECT count(*)::integer FROM (SELECT id FROM states GROUP BY id HAVING count(*) > 1) AS twice)
            + (SELECT count(*)::integer FROM holdfast.jobs WHERE queue = 'kept' AND id NOT IN (SELECT id FROM states)) AS broken`,
  )
  return rows[0]
}
