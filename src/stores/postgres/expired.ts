// expired: leases that have run out, with what is needed to decide about their jobs. ◄── upkeep/rescue.ts

import type { Expired } from '../../core/upkeep-store.js'
import type { Database } from './database.js'
import { readOptions, readQueueLimits } from './options-column.js'
import { type Row, readMs, statement } from './statement.js'

const EXPIRED = statement(
  'expired',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), set_back AS (
  -- Claimed at a time far in the future: the clock was ahead then. The lease gets its length again, counted from now. The worker that
  -- runs the job extends it before it ends.
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
           (extract(epoch FROM jobs.created_at) * 1000)::float8, jobs.options, queues.settings,
           EXISTS (SELECT FROM :schema.kept
                    WHERE kept.id = running.id AND kept.fence = running.fence AND kept.ended_at IS NOT NULL)
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
  const [nowMs, upMs] = rows[0]!
  const jobs = rows.filter(([, , id]) => id !== null).map(([, , ...lease]) => readLease(lease))
  return { jobs, nowMs: Number(nowMs), upMs: readMs(upMs) }
}

function readLease(row: Row): Expired['jobs'][number] {
  const [
    id,
    fence,
    queue,
    type,
    worker,
    attempt,
    crashes,
    begun,
    expiredMs,
    createdAtMs,
    optionsText,
    settings,
    hasKept,
  ] = row
  const options = readOptions(optionsText)
  return {
    id: id!,
    fence: Number(fence),
    queue: queue!,
    type: type!,
    worker: worker!,
    attempt: Number(attempt),
    // One that got on under this lease is not what took its worker down: it is the first crash since.
    crashes: hasKept === 't' ? 0 : Number(crashes),
    // Only suspects record that they begin. For any other job it must be assumed that its handler ran.
    started: Number(crashes) === 0 || begun === 't',
    expiredMs: Number(expiredMs),
    createdAtMs: Number(createdAtMs),
    limits: options.limits ?? {},
    queueLimits: readQueueLimits(settings),
    idempotencyKey: options.key ?? null,
    ...(options.flow === undefined ? {} : { flow: options.flow }),
  }
}
