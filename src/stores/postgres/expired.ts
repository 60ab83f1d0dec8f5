// expired: leases that have run out, with what is needed to decide about their jobs. ◄── upkeep/rescue.ts

import type { Expired } from '../../core/upkeep-store.js'
import type { Database } from './database.js'
import { readOptions, readQueueLimits } from './options-column.js'
import { readMs, statement } from './statement.js'

const EXPIRED = statement(
  'expired',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), set_back AS (
  -- Claimed at a time that is far from having come: the clock was ahead then. The lease lasts from now on for as long as it did; whoever
  -- runs the job extends it before that.
  UPDATE :schema.running
     SET leased_until = moment.now + (running.leased_until - running.claimed_at)
    FROM moment
   WHERE running.ctid = ANY (ARRAY(
     SELECT early.ctid
       FROM :schema.running AS early, moment
      WHERE early.leased_until > moment.now + interval '15 minutes'
        AND early.claimed_at > moment.now + interval '15 minutes'
        AND early.leased_until >= early.claimed_at
      LIMIT $2
        FOR UPDATE OF early SKIP LOCKED))                     -- one that a handler's open transaction settles is left to it
)
SELECT (extract(epoch FROM moment.now) * 1000)::float8,
       (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000)::float8,
       lease.*
  FROM moment
  LEFT JOIN LATERAL (
    SELECT running.id, running.fence, running.queue, running.type, running.worker, running.attempt, running.crashes,
           running.begun, (extract(epoch FROM moment.now - running.leased_until) * 1000)::float8,
           (extract(epoch FROM jobs.created_at) * 1000)::float8, jobs.options, queues.settings
      FROM :schema.running
      LEFT JOIN :schema.jobs ON jobs.id = running.id
      LEFT JOIN :schema.queues ON queues.name = running.queue
     WHERE running.leased_until <= moment.now
     ORDER BY running.leased_until, running.id
     LIMIT $2
  ) AS lease ON true`,
)

export async function expired(db: Database, limit: number): Promise<Expired> {
  const rows = await db.send('upkeep', EXPIRED, [db.now(), limit])
  const jobs = rows
    .filter((row) => row[2] !== null)
    .map((row) => {
      const options = readOptions(row[12])
      const crashes = Number(row[8])
      return {
        id: row[2]!,
        fence: Number(row[3]),
        queue: row[4]!,
        type: row[5]!,
        worker: row[6]!,
        attempt: Number(row[7]),
        crashes,
        // Only suspects say when they begin; of any other job it must be assumed that its handler ran.
        started: crashes === 0 || row[9] === 't',
        expiredMs: Number(row[10]),
        createdAtMs: Number(row[11]),
        limits: options.limits ?? {},
        queueLimits: readQueueLimits(row[13]),
        idempotencyKey: options.key ?? null,
      }
    })
  return { jobs, nowMs: Number(rows[0]![0]), upMs: readMs(rows[0]![1]) }
}
