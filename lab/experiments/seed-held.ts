// Fills the table of jobs that wait under flow control in seconds: rows are written in bulk by SQL, in chunks, each as the product would have
// left it after batches of 500 jobs of one group.

import type pg from 'pg'
import { PAYLOAD } from '../bench/payloads.js'
import { say } from '../say.js'

const BATCH = 500
const CHUNK = 100 * BATCH
const SAY_EVERY = 250_000

// $1 jobs of this chunk, $2 the track, $3 the queue, $4 the group, $5 the payload.
const HELD = `
WITH batch AS MATERIALIZED (
  SELECT number, nextval('holdfast.positions') * 65536 AS place, clock_timestamp() AS now
    FROM generate_series(0, ($1::integer - 1) / ${BATCH}) AS number
), line AS MATERIALIZED (
  SELECT batch.now, batch.place + ordinal AS position
    FROM batch
   CROSS JOIN generate_series(1, ${BATCH}) AS ordinal
   WHERE batch.number * ${BATCH} + ordinal <= $1
   ORDER BY position
), written AS (
  INSERT INTO holdfast.jobs (id, created_at, position, priority, version, queue, type, payload, options)
  SELECT uuidv7(), now, position, 0, 1, $3, 'noop', $5::json,
         format('{"flow":{"group":%s,"limits":[],"cost":1}}', to_json($4::text))::json
    FROM line
  RETURNING id, created_at, position, queue, type
), waits AS (
  INSERT INTO holdfast.held (id, position, since, track, priority, queue, group_name, type)
  SELECT id, position, created_at, $2::integer, 0, queue, $4, type FROM written
)
INSERT INTO holdfast.arrivals (turn, track, group_name)
SELECT batch.place, $2::integer, $4 FROM batch`

/** Jobs of one group that may be claimed now. */
export async function seedHeld(
  client: pg.Client,
  { queue, group, jobs }: { readonly queue: string; readonly group: string; readonly jobs: number },
): Promise<void> {
  const { rows } = await client.query("SELECT made FROM holdfast.make_track($1, '{}', 64)", [queue])
  for (let from = 0; from < jobs; from += CHUNK) {
    const count = Math.min(CHUNK, jobs - from)
    await client.query(HELD, [count, rows[0].made, queue, group, JSON.stringify(PAYLOAD)])
    const done = from + count
    if (done % SAY_EVERY === 0 && jobs > SAY_EVERY) {
      say(`  ${done.toLocaleString('en')} of ${jobs.toLocaleString('en')} rows of group ${group}`)
    }
  }
}
