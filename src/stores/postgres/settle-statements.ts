// The statements that settle jobs, and their parameters. Two make up the fast path, the third is the general path.

import type { SettledJob } from '../../core/job.js'
import type { Call, Database } from './database.js'
import { hasLinks } from './has-links.js'
import { arrayOf, jsonArrayOf, plainArrayOf, statement, unlessUsual } from './statement.js'

// Deletes each row whose id and fence are those of one settlement. The index finds the rows by id and a hash table checks the pairs, so
// the plan does not depend on statistics: IS TRUE keeps the planner from turning the subquery into a join of its own choice. A row that
// is being extended at this moment is waited for, and its newest version is checked.
const deleteMatching = (columns: string) => `gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY ($2)
     AND ((running.id, running.fence) IN (SELECT outcome.id, outcome.fence FROM outcome)) IS TRUE
  RETURNING ${columns}
)`

// Skips rows that are locked, and on request leases that still hold. DELETE cannot skip locked rows, so they are locked first.
const DELETE_UNLOCKED = `held AS MATERIALIZED (
  SELECT outcome.id
    FROM outcome
   CROSS JOIN moment
   CROSS JOIN LATERAL (
     SELECT FROM :schema.running
      WHERE running.id = outcome.id
        AND running.fence = outcome.fence
        AND (NOT $13::boolean OR running.leased_until <= moment.now)
        FOR UPDATE SKIP LOCKED
   ) AS row
), gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY (ARRAY(SELECT id FROM held))
  RETURNING id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker
)`

const settleAnySql = (gone: string) => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), outcome AS MATERIALIZED (
  SELECT *
    FROM ROWS FROM (unnest($2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::smallint[], $7::float8[], $8::json[],
                           $9::text[], $11::float8[], $12::boolean[], $14::text[]),
                    json_array_elements($10::json))
           WITH ORDINALITY AS outcome (id, fence, state, attempt, crashes, delay_ms, result, reason, ran_ms, keyed, fingerprint,
                                       error, ordinal)
), ${gone}, ended AS MATERIALIZED (
  SELECT gone.id, gone.priority, gone.queue, gone.type, gone.worker, gone.attempt AS ran_attempt, moment.now,
         moment.place + outcome.ordinal AS position, outcome.ordinal, gone.fence AS claim_fence,
         -- A rescue raises the fence, so that the late worker's own settlement cannot pass for a repetition of it.
         gone.fence + $13::boolean::integer AS fence, outcome.attempt, coalesce(outcome.crashes, 0) AS crashes, outcome.delay_ms,
         outcome.result, outcome.reason, outcome.keyed, outcome.fingerprint,
         CASE WHEN json_typeof(outcome.error) <> 'null' THEN outcome.error END AS error,
         coalesce(moment.now - outcome.ran_ms * interval '1 millisecond', gone.claimed_at) AS started_at,
         outcome.state AS asked_state,
         -- The one rule that is the store's: a cancel requested while the job ran.
         CASE WHEN outcome.state IN ('retrying', 'scheduled', 'ready')
               AND (gone.cancel_requested OR EXISTS (SELECT FROM :schema.cancels WHERE cancels.id = gone.id)) THEN 'cancelled'
              ELSE outcome.state
          END AS state
    FROM gone
    JOIN outcome ON outcome.id = gone.id AND outcome.fence = gone.fence
   CROSS JOIN moment
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
  SELECT id, now, started_at, fence, attempt, crashes, CAST(state AS :schema.ending), worker, result
    FROM ended
   WHERE state IN ('succeeded', 'cancelled')
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, fence, priority, attempt, crashes, retrying, queue, type)
  SELECT id, now + delay_ms * interval '1 millisecond', fence, priority, attempt, crashes, state = 'retrying', queue, type
    FROM ended
   WHERE state IN ('retrying', 'scheduled')
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT id, position - 4611686018427387904, now, fence, priority, attempt, crashes, true, queue, type
    FROM ended
   WHERE state = 'ready'
), into_dead AS (
  INSERT INTO :schema.dead (id, died_at, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error,
                            fingerprint)
  SELECT id, now, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error, fingerprint
    FROM ended
   WHERE state = 'dead'
), into_attempts AS (
  INSERT INTO :schema.attempts (id, fence, started_at, finished_at, attempt, worker, error)
  SELECT id, claim_fence, started_at, now, ran_attempt, worker, error
    FROM ended
   WHERE error IS NOT NULL
), freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM ended WHERE keyed AND state IN ('succeeded', 'cancelled', 'dead')))
     AND keys.expires_at IS NULL
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT ended.id FROM ended WHERE ended.state IN ('succeeded', 'cancelled', 'dead') AND (${hasLinks('ended.id', '$15')})
  RETURNING job
)
SELECT count(*)::text AS count,
       (json_agg(ordinal) FILTER (WHERE (SELECT count(*) FROM ended) < cardinality($2)))::text AS settled,
       (json_agg(ordinal) FILTER (WHERE state <> asked_state))::text AS cancelled,
       (SELECT json_agg(job) FROM announced)::text AS parents
  FROM ended`

const SETTLE_ANY = statement(
  'settle_any',
  settleAnySql(deleteMatching('id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker')),
)
const SETTLE_UNLOCKED = statement('settle_unlocked', settleAnySql(DELETE_UNLOCKED))

/** Settles jobs with any outcome. The answer is one row: how many were settled, which ones unless all were, which of them became
 *  cancelled instead (both as ordinals from 1), and which have children. */
export function settleAny(
  db: Database,
  jobs: readonly SettledJob[],
  { path, marks, onlyExpired = false, isInTransaction = false }: AnyOptions,
): Call {
  const column = columnsOf(jobs)
  const errors = jobs.map(({ error }) => error)
  const values = [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    plainArrayOf(jobs.map(({ fence }) => fence)),
    plainArrayOf(jobs.map(({ settlement }) => settlement.state)),
    plainArrayOf(jobs.map(({ settlement }) => settlement.attempt)),
    column(({ settlement }) => settlement.crashes, 0),
    arrayOf(jobs.map(({ settlement }) => ('delayMs' in settlement ? settlement.delayMs : null))),
    column(({ result }) => result, null),
    column(({ settlement }) => ('reason' in settlement ? settlement.reason : null), null),
    jsonArrayOf(errors.every((error) => error === null) ? [] : errors.map((error) => JSON.stringify(error))),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    arrayOf(jobs.map(({ idempotencyKey }) => idempotencyKey !== null)),
    onlyExpired,
    column((job) => marks.get(job) ?? null, null),
    isInTransaction,
  ]
  return [path === 'fast' ? SETTLE_ANY : SETTLE_UNLOCKED, values]
}

interface AnyOptions {
  /** The general path skips locked rows, and with `onlyExpired` leases that still hold. */
  readonly path: 'fast' | 'general'
  /** Fingerprints of the errors of jobs that die. */
  readonly marks: ReadonlyMap<SettledJob, string>
  readonly onlyExpired?: boolean
  readonly isInTransaction?: boolean
}

/** Makes an array parameter of one value of each job, or null when every job has the usual one. */
function columnsOf(jobs: readonly SettledJob[]) {
  return (read: (job: SettledJob) => string | number | null, usual: number | null) => unlessUsual(jobs.map(read), usual)
}

// One delete and one insert: 16 to 20 µs of the server's time for a job, where the statement for any outcome takes 45 to 60.
const settleSucceededSql = (freed: string) => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), outcome AS MATERIALIZED (
  SELECT *
    FROM unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::smallint[], $6::float8[], $7::json[])
           AS outcome (id, fence, attempt, crashes, ran_ms, result)
), ${deleteMatching('id, fence, claimed_at, worker')}, into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
  SELECT gone.id, moment.now, coalesce(moment.now - outcome.ran_ms * interval '1 millisecond', gone.claimed_at), gone.fence,
         coalesce(outcome.attempt, 1), coalesce(outcome.crashes, 0), 'succeeded', gone.worker, outcome.result
    FROM gone
    JOIN outcome ON outcome.id = gone.id AND outcome.fence = gone.fence
   CROSS JOIN moment
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT gone.id FROM gone WHERE ${hasLinks('gone.id', '$8')}
  RETURNING job
)${freed}
SELECT count(*)::text AS count, NULL AS settled, NULL AS cancelled, (SELECT json_agg(job) FROM announced)::text AS parents
  FROM gone`

const SETTLE_SUCCEEDED = statement('settle_succeeded', settleSucceededSql(''))
const SETTLE_SUCCEEDED_KEYED = statement(
  'settle_succeeded_keyed',
  settleSucceededSql(`, freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM gone WHERE id = ANY ($9::uuid[])))
     AND keys.expires_at IS NULL
)`),
)

/** True for a job that `settleSucceeded` can settle. */
export function hasSucceeded({ settlement, error }: SettledJob): boolean {
  return settlement.state === 'succeeded' && error === null
}

/** Settles jobs that have succeeded. The answer is that of `settleAny`, except that it never lists which ones were settled. */
export function settleSucceeded(db: Database, jobs: readonly SettledJob[], isInTransaction: boolean): Call {
  const column = columnsOf(jobs)
  const keyed = jobs.filter(({ idempotencyKey }) => idempotencyKey !== null).map(({ id }) => id)
  const values = [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    plainArrayOf(jobs.map(({ fence }) => fence)),
    column(({ settlement }) => settlement.attempt, 1),
    column(({ settlement }) => settlement.crashes, 0),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    column(({ result }) => result, null),
    isInTransaction,
  ]
  return keyed.length === 0 ? [SETTLE_SUCCEEDED, values] : [SETTLE_SUCCEEDED_KEYED, [...values, plainArrayOf(keyed)]]
}
