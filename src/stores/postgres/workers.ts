// Workers: those that are alive, by their own reports.

import type { WorkerBeat, WorkerView } from '../../core/views.js'
import type { Database } from './database.js'
import { readDate, readJson, statement } from './statement.js'

const BEAT = statement(
  'beat',
  `
INSERT INTO :schema.workers (id, started_at, seen_at, beat)
SELECT $2, moment.now, moment.now, $3::json
  FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
    ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, beat = excluded.beat`,
)

export async function beat(db: Database, worker: WorkerBeat): Promise<void> {
  await db.send('operate', BEAT, [db.now(), worker.id, JSON.stringify(worker)])
}

const LEAVE = statement('leave', 'DELETE FROM :schema.workers WHERE id = $1')

export async function leave(db: Database, workerId: string): Promise<void> {
  await db.send('operate', LEAVE, [workerId])
}

const WORKERS = statement(
  'workers',
  `
SELECT beat, (extract(epoch FROM started_at) * 1000)::float8, (extract(epoch FROM seen_at) * 1000)::float8
  FROM :schema.workers
 ORDER BY id
 LIMIT 10000`,
)

export async function workers(db: Database): Promise<readonly WorkerView[]> {
  const rows = await db.send('look', WORKERS, [])
  return rows.map(([beat, startedAt, seenAt]) => ({
    // A worker of an older version reports fewer fields.
    ...{ types: null, jobs: [], children: null },
    ...(readJson(beat) as WorkerBeat),
    startedAt: readDate(startedAt)!,
    seenAt: readDate(seenAt)!,
  }))
}
