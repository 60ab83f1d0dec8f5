// Days past their retention, made before a run begins. Some hold more dead jobs than one call of prune carries over, and each has
// jobs that become due while the day is being dropped. At the end those days must be gone, and every live job must exist.

import type pg from 'pg'
import { openHoldfast } from '../../../src/holdfast.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { jobAt } from '../../gen/mix.js'
import type { Recorder } from '../../gen/recorder.js'
import type { FinalDay } from '../../history/events.js'
import type { PostgresServer } from '../../servers/postgres.js'
import { JOBS } from '../load.js'
import type { ChaosSettings } from '../settings.js'

/** Three days in a row of more than 10,000 leftovers, and two of few: how many dead jobs each has. */
const LEFTOVERS = [10_500, 10_500, 10_500, 200, 0]
const FINISHED = 3_000
/** The jobs of each day that are to run, and from when on. */
const DUE = 60
const DUE_FROM_MS = 3_000
const DUE_EVERY_MS = 300
const DAY_MS = 86_400_000
const AGE_DAYS = 20

/** A dead job of these days: they are counted, not followed. */
export const LEFTOVER: string = 'leftover'

function daysAgo(number: number): Date {
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  return new Date(today - (AGE_DAYS - number) * DAY_MS + DAY_MS / 2)
}

const FILL = `
WITH made AS MATERIALIZED (
  SELECT number, (lpad(to_hex($1::bigint + number), 12, '0') || '7' || right(md5('a' || $1 || number), 3)
          || '8' || right(md5('b' || $1 || number), 15))::uuid AS id
    FROM generate_series(1, $2::integer + $3::integer) AS number
), jobs AS (
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload)
  SELECT id, to_timestamp($1 / 1000.0), 0, 0, 1, 'gen', '${LEFTOVER}', 'null' FROM made
), dead AS (
  INSERT INTO :schema.dead (id, died_at, fence, priority, attempt, crashes, reason, queue, type)
  SELECT id, to_timestamp($1 / 1000.0), 1, 0, 1, 0, 'attempts', 'gen', '${LEFTOVER}' FROM made WHERE number <= $2
)
INSERT INTO :schema.finished (id, finished_at, fence, attempt, crashes, ending)
SELECT id, to_timestamp($1 / 1000.0), 1, 1, 0, 'succeeded' FROM made WHERE number > $2`

/** Makes the days, before the triggers are set. */
export async function makeOldDays(sql: pg.Client, schema: string): Promise<void> {
  for (const [number, dead] of LEFTOVERS.entries()) {
    const day = daysAgo(number)
    await sql.query(`SELECT "${schema}".open_day($1::date)`, [day.toISOString().slice(0, 10)])
    await sql.query(FILL.replaceAll(':schema', `"${schema}"`), [day.getTime(), dead, FINISHED])
  }
}

/** Enqueues the jobs of those days that are to run, as if it were then. */
export async function enqueueOldJobs(server: PostgresServer, schema: string, place: Place): Promise<void> {
  const { recorder, settings } = place
  for (const number of LEFTOVERS.keys()) {
    const then = daysAgo(number).getTime()
    const store = await postgresStore(server.url, {
      schema,
      clock: { now: () => then, monotonic: () => performance.now() },
    })
    const holdfast = await openHoldfast(store, { upkeep: false, name: 'old-days' })
    const entries = Array.from({ length: DUE }, (_, seq) => {
      const payload = { ...jobAt(settings.seed, seq, settings.mix), kind: 'fast' as const, ms: 20, failures: 0 }
      const key = `old-${number}-${seq}`
      const delay = Date.now() - then + DUE_FROM_MS + seq * DUE_EVERY_MS
      return [JOBS.fast, { ...payload, key }, { delay }] as const
    })
    for (const [, { key }] of entries) recorder.write({ ev: 'enqueue.invoke', key, idempotencyKey: null })
    const answers = await holdfast.enqueueMany(entries)
    answers.forEach(({ id, created }, index) => {
      recorder.write({ ev: 'enqueue.ok', key: entries[index]![1].key, job: id, created })
    })
    await holdfast.close()
  }
}

interface Place {
  readonly recorder: Recorder
  readonly settings: ChaosSettings
}

/** What is left of the days at the end. */
export async function readOldDays(sql: pg.Client, schema: string): Promise<FinalDay[]> {
  const days: FinalDay[] = []
  for (const [number, dead] of LEFTOVERS.entries()) {
    const day = daysAgo(number).toISOString().slice(0, 10)
    const { rows } = await sql.query<{ gone: boolean; left: number }>(
      `SELECT to_regclass(format('%I.%I', $1::text, 'jobs_' || $2::text)) IS NULL AS gone,
              (SELECT count(*) FROM "${schema}".jobs JOIN "${schema}".dead USING (id)
                WHERE jobs.type = '${LEFTOVER}' AND jobs.created_at = to_timestamp($3 / 1000.0))::integer AS left`,
      [schema, day.replaceAll('-', ''), daysAgo(number).getTime()],
    )
    days.push({ ev: 'final day', day, isGone: rows[0]!.gone, leftovers: dead, left: rows[0]!.left })
  }
  return days
}

/** True while a day is there that must go. */
export async function hasOldDays(sql: pg.Client, schema: string): Promise<boolean> {
  return (await readOldDays(sql, schema)).some(({ isGone }) => !isGone)
}
