// A store after a busy day that went wrong: a long backlog, as many finished jobs, dead ones of fifty kinds. Written in bulk by
// SQL, each row as the product would have left it.

import type pg from 'pg'

export interface Fill {
  readonly schema: string
  /** Jobs that wait or run. */
  readonly waiting: number
  /** Jobs that have ended, dead ones among them. */
  readonly finished: number
}

/** How many kinds of errors the dead jobs have. */
const FINGERPRINTS = 50
const QUEUES: readonly string[] = ['default', 'billing', 'email', 'export', 'image', 'push', 'report', 'sync']

// Of a hundred jobs, 65 are of the first queue.
const QUEUE = `(ARRAY['${QUEUES.join("','")}'])[CASE WHEN n % 100 < 65 THEN 1 ELSE 2 + n % ${QUEUES.length - 1} END]`
const TYPE = `(ARRAY['send', 'resize', 'charge', 'sync'])[1 + n % 4]`
const PAYLOAD = "json_build_object('user', json_build_object('id', n % 1000), 'n', n)"
const ERROR = `json_build_object('name', 'Error', 'message', 'upstream ' || n % ${FINGERPRINTS} || ' timed out', 'stack', '')`
const AT = "clock_timestamp() - interval '1 millisecond' * (:total - n)"

/** The id of the job with a number, a millisecond apart; the last is of this moment. */
const ID = `(overlay(lpad(to_hex(:now::bigint - :total + n), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`

// Finished jobs come first and are the oldest. Of those that ended one in twenty is dead and one in fifty cancelled; of those that
// wait 85 in a hundred are ready, 10 have a time, 4 wait for a retry and one runs.
const STEPS: readonly string[] = [
  `INSERT INTO :schema.queues (name) SELECT unnest(ARRAY['${QUEUES.join("','")}'])`,
  `INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, tags)
   SELECT ${ID}, ${AT}, n * 65536::bigint, n % 3, 1, ${QUEUE}, ${TYPE}, ${PAYLOAD}, CASE WHEN n % 10 = 0 THEN ARRAY['eu'] END
     FROM generate_series(1, :total) AS n`,
  `INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
   SELECT ${ID}, ${AT}, ${AT}, 1, 1, 0, CASE WHEN n % 50 = 1 THEN 'cancelled' ELSE 'succeeded' END::":schema_text".ending, 'w', '1'
     FROM generate_series(1, :finished) AS n
    WHERE n % 20 <> 0`,
  `INSERT INTO :schema.dead (id, died_at, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error, fingerprint)
   SELECT ${ID}, ${AT}, ${AT}, 1, n % 3, 3, 0, 'attempts', ${QUEUE}, ${TYPE}, 'w', ${ERROR}, 'f' || lpad((n / 20 % ${FINGERPRINTS})::text, 13, '0')
     FROM generate_series(20, :finished, 20) AS n`,
  `INSERT INTO :schema.attempts (id, fence, started_at, finished_at, attempt, worker, error)
   SELECT ${ID}, 1, ${AT}, ${AT}, 3, 'w', ${ERROR} FROM generate_series(20, :finished, 20) AS n`,
  `INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
   SELECT ${ID}, n * 65536::bigint, ${AT}, n % 3, false, ${QUEUE}, ${TYPE}
     FROM generate_series(:finished + 1, :total) AS n
    WHERE n % 100 < 85`,
  `INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
   SELECT ${ID}, clock_timestamp() + interval '1 second' * n, n % 3, 1, 0, n % 100 >= 95, ${QUEUE}, ${TYPE}
     FROM generate_series(:finished + 1, :total) AS n
    WHERE n % 100 BETWEEN 85 AND 98`,
  `INSERT INTO :schema.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested, queue, type, worker)
   SELECT ${ID}, 1, ${AT}, clock_timestamp() + interval '1 day', n % 3, 1, 0, true, false, ${QUEUE}, ${TYPE}, 'worker-' || n % 20
     FROM generate_series(:finished + 1, :total) AS n
    WHERE n % 100 = 99`,
  `INSERT INTO :schema.tallies (queue, at, enqueued, claimed, succeeded, failed, retried, dead, cancelled, rescued, wait_ms_total, run_ms_total)
   SELECT queue, to_timestamp(:now / 10000 * 10 - step * 10), 100, 100, 95, 5, 4, 1, 0, 0, 1000, 1000
     FROM unnest(ARRAY['', '${QUEUES.join("','")}']) AS queue, generate_series(0, 8639) AS step`,
  `INSERT INTO :schema.samples (queue, at, blocked, scheduled, ready, running, retrying, dead, oldest_age_s)
   SELECT queue, to_timestamp(:now / 10000 * 10 - step * 10), 0, 10, 1000, 10, 5, 5, 60
     FROM unnest(ARRAY['', '${QUEUES.join("','")}']) AS queue, generate_series(0, 8639) AS step`,
  `INSERT INTO :schema.audit (at, actor, action, job, target)
   SELECT clock_timestamp(), CASE WHEN n % 1000 = 0 THEN 'grace' ELSE 'ada' END, 'requeue', ${ID}, NULL FROM generate_series(1, 20000) AS n`,
  `INSERT INTO :schema.keys (queue, key, id) SELECT 'email', 'key-' || n, ${ID} FROM generate_series(:total - 1000, :total) AS n`,
  `INSERT INTO :schema.workers (id, started_at, seen_at, beat)
   SELECT 'worker-' || n, clock_timestamp(), clock_timestamp() + interval '1 hour',
          json_build_object('id', 'worker-' || n, 'host', 'h', 'pid', n, 'queues', json_build_array('default', 'email'), 'concurrency', 64,
                            'running', 10, 'draining', false, 'version', '0', 'types', NULL, 'jobs', '[]'::json)
     FROM generate_series(1, 20) AS n`,
  `INSERT INTO :schema.schedules (name, settings, next_at)
   SELECT 'nightly-' || n, json_build_object('name', 'nightly-' || n, 'cron', '0 2 * * *', 'zone', 'UTC', 'queue', 'report', 'type', 'send',
          'payload', '{}', 'version', 1, 'priority', 0, 'limits', '{}'::json, 'tags', '[]'::json, 'catchUp', 'one', 'catchUpMax', 1, 'overlap', 'skip'),
          clock_timestamp() + interval '1 hour'
     FROM generate_series(1, 20) AS n`,
  `INSERT INTO :schema.ticks (schedule, tick, job)
   SELECT 'nightly-1', clock_timestamp() - interval '1 minute' * n, ${ID} FROM generate_series(1, 10000) AS n`,
]

/** Fills the tables of a schema that was just made. */
export async function fillStore(client: pg.Client, { schema, waiting, finished }: Fill): Promise<void> {
  const now = Date.now()
  const total = waiting + finished
  for (const step of STEPS) {
    const text = step
      .replaceAll(':schema_text', schema)
      .replaceAll(':schema', `"${schema}"`)
      .replaceAll(':finished', String(finished))
      .replaceAll(':total', String(total))
      .replaceAll(':now', String(now))
    await client.query(text)
  }
}
