// Fills large tables in minutes instead of hours: rows are written in bulk by SQL, in chunks, each as the product would have left it.
// Positions and keys come from the same sequence and in the same order as with batches of 500 jobs enqueued one after the other.

import type pg from 'pg'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { say } from '../../say.js'
import { freshDatabase, withClient } from '../database.js'
import { PAYLOAD } from '../payloads.js'
import type { GrowthContext } from './measure.js'

const BATCH = 500
const CHUNK = 100 * BATCH
const SAY_EVERY = 1_000_000
const DAY_MS = 86_400_000

// $1 jobs of this chunk, $2 how many came before it, $3 the queues they are spread over, $4 how old they are.
const LINE = `
WITH batch AS MATERIALIZED (
  SELECT number, nextval('holdfast.positions') * 65536 AS place, clock_timestamp() - $4::interval AS now
    FROM generate_series(0, ($1::integer - 1) / ${BATCH}) AS number
), line AS MATERIALIZED (
  SELECT batch.now, batch.place + ordinal AS position,
         $2::bigint + batch.number * ${BATCH} + ordinal - 1 AS number,
         ($3::text[])[1 + (($2::bigint + batch.number * ${BATCH} + ordinal - 1) % cardinality($3))::integer] AS queue
    FROM batch
   CROSS JOIN generate_series(1, ${BATCH}) AS ordinal
   WHERE batch.number * ${BATCH} + ordinal <= $1
   ORDER BY position                                          -- ids are made in the order of the line, as a client makes them
), written AS (
  INSERT INTO holdfast.jobs (id, created_at, position, priority, version, queue, type, payload)
  SELECT uuidv7(- $4::interval), now, position, 0, 1, queue, 'noop', $5::json
    FROM line
  RETURNING id, created_at, position, queue, type
)`

const READY = `${LINE}
INSERT INTO holdfast.ready (id, position, since, priority, moved, queue, type)
SELECT id, position, created_at, 0, false, queue, type FROM written`

// Due from an hour to a week from now, in the order they were enqueued.
const SCHEDULED = `${LINE}
INSERT INTO holdfast.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
SELECT written.id, written.created_at + interval '1 hour' + line.number * $6::float8 * interval '1 millisecond', 0, 0, 0, false,
       written.queue, written.type
  FROM written
  JOIN line ON line.position = written.position`

const FINISHED = `${LINE}
INSERT INTO holdfast.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker)
SELECT id, created_at + interval '12 milliseconds', created_at + interval '10 milliseconds',
       round(date_part('epoch', created_at) * 1000)::bigint + 9, 1, 0, 'succeeded', 'worker:1:00000000'
  FROM written`

/** Jobs that may be claimed now, spread evenly over queues. */
export async function seedReady(
  client: pg.Client,
  jobs: number,
  queues: readonly string[] = ['default'],
): Promise<void> {
  await knowQueues(client, queues)
  await inChunks('ready', jobs, (count, from) =>
    client.query(READY, [count, from, [...queues], '0', JSON.stringify(PAYLOAD)]),
  )
}

/** Jobs whose time comes within the week. */
export async function seedScheduled(client: pg.Client, jobs: number): Promise<void> {
  await knowQueues(client, ['default'])
  const stepMs = (6 * DAY_MS) / Math.max(1, jobs)
  await inChunks('scheduled', jobs, (count, from) =>
    client.query(SCHEDULED, [count, from, ['default'], '0', JSON.stringify(PAYLOAD), stepMs]),
  )
}

/** Jobs that succeeded in the course of the last days, today among them, and are kept. */
export async function seedFinished(client: pg.Client, jobs: number, days: number): Promise<void> {
  await knowQueues(client, ['default'])
  for (let day = 0; day < days; day++) {
    await client.query("SELECT holdfast.open_day((clock_timestamp() AT TIME ZONE 'UTC')::date - $1::integer)", [day])
  }
  await inChunks('finished', jobs, (count, from) => {
    const day = days - 1 - Math.floor((from / jobs) * days)
    return client.query(FINISHED, [count, from, ['default'], `${day} days`, JSON.stringify(PAYLOAD)])
  })
}

async function knowQueues(client: pg.Client, queues: readonly string[]): Promise<void> {
  await client.query('INSERT INTO holdfast.queues (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING', [queues])
}

async function inChunks(
  what: string,
  jobs: number,
  write: (count: number, from: number) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < jobs; from += CHUNK) {
    await write(Math.min(CHUNK, jobs - from), from)
    const done = Math.min(jobs, from + CHUNK)
    if (done % SAY_EVERY === 0 || (done === jobs && jobs > SAY_EVERY)) {
      say(`  ${done.toLocaleString('en')} of ${jobs.toLocaleString('en')} ${what} rows`)
    }
  }
}

/**
 * A fresh database with Holdfast's tables, filled by `seed`, vacuumed and analysed as a database of that size would be.
 * `isCold` restarts the server, so that its cache is empty. Returns the URL.
 */
export async function prepareDatabase(
  { postgres }: GrowthContext,
  seed: (client: pg.Client) => Promise<void>,
  options: { readonly isCold?: boolean } = {},
): Promise<string> {
  const url = await freshDatabase(postgres.url)
  await (await postgresStore(url)).close()
  await withClient(url, async (client) => {
    // Only the rows matter here; the checkpoint writes them to disk.
    await client.query('SET synchronous_commit = off')
    await seed(client)
    await client.query('VACUUM (ANALYZE) holdfast.jobs, holdfast.finished, holdfast.ready, holdfast.scheduled')
    await client.query('CHECKPOINT')
  })
  if (options.isCold) {
    await postgres.stop('SIGINT')
    await postgres.start()
  }
  return url
}
