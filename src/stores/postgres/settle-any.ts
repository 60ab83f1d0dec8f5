// The statements that settle any outcome, and what they are given. Two ways to take the rows out of running, one way to write what
// becomes of them.

import type { SettledJob } from '../../core/job.js'
import type { Database } from './database.js'
import { hasLinks } from './has-links.js'
import { arrayOf, jsonArrayOf, plainArrayOf, type Statement, statement, unlessUsual } from './statement.js'

// By the set of the batch's fences, so that nothing is locked before it is deleted; a row that is being extended at this moment is
// waited for, and its newest version is what the condition is checked against. A row with the fence of another is gone without an
// outcome then, and the division at the end fails the whole statement: the long way tells the two apart.
const BY_FENCES = `gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY ($2)
     AND running.fence = ANY ($16::bigint[])
  RETURNING id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker
)`

// Each row by its own fence: a lease that no longer holds matches none, and the caller learns from what is left out. Rows are locked
// first, because a row that is being extended at this moment must be waited for; deleting by id then finds its newest version.
const byLocks = (lock: string) => `held AS MATERIALIZED (
  SELECT outcome.id
    FROM outcome
   CROSS JOIN moment
   CROSS JOIN LATERAL (
     SELECT FROM :schema.running
      WHERE running.id = outcome.id
        AND running.fence = outcome.fence
        ${lock}
   ) AS row
), gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY (ARRAY(SELECT id FROM held))
  RETURNING id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker
)`

const settleSql = (gone: string, answer: string) => `
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
         gone.fence + $13::integer AS fence, outcome.attempt, coalesce(outcome.crashes, 0) AS crashes, outcome.delay_ms,
         outcome.result, outcome.reason, outcome.keyed, outcome.fingerprint,
         CASE WHEN json_typeof(outcome.error) <> 'null' THEN outcome.error END AS error,
         coalesce(moment.now - outcome.ran_ms * interval '1 millisecond', gone.claimed_at) AS started_at,
         outcome.state AS asked_state,
         -- The one rule that is the store's: a cancel asked for while the job ran.
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
${answer}`

const EACH = `
SELECT id::text, claim_fence::text, state, ((id IN (SELECT job FROM announced)) IS TRUE)::text
  FROM ended`

/** All of them, distinct, given the set of their fences as well. The answer is one row: how many were settled, which ones when these are
 *  not all, which were cancelled instead (counted from 1 both), and which have children. */
export const SETTLE_ALL: Statement = statement(
  'settle_all',
  settleSql(
    BY_FENCES,
    `
SELECT (count(*) / CASE WHEN count(*) = (SELECT count(*) FROM gone) THEN 1 ELSE 0 END)::text,
       (json_agg(ordinal) FILTER (WHERE (SELECT count(*) FROM ended) < cardinality($2)))::text,
       (json_agg(ordinal) FILTER (WHERE state <> asked_state))::text,
       (SELECT json_agg(job) FROM announced)::text
  FROM ended`,
  ),
)

/** Each by itself, with a row for each that was settled. */
export const SETTLE_EACH: Statement = statement('settle_each', settleSql(byLocks('FOR UPDATE'), EACH))

/** Each by itself, passing over rows that are locked: somebody's open transaction may be settling one. */
export const SETTLE_FREE: Statement = statement('settle_free', settleSql(byLocks('FOR UPDATE SKIP LOCKED'), EACH))

/** For rescue: only what has run out, and nothing that somebody is settling or extending at this moment. */
export const SETTLE_EXPIRED: Statement = statement(
  'settle_expired',
  settleSql(byLocks('AND running.leased_until <= moment.now FOR UPDATE SKIP LOCKED'), EACH),
)

/** What each of them is given. `marks` tell the errors of those that die apart. */
export function settleValues(
  db: Database,
  jobs: readonly SettledJob[],
  marks: readonly (string | null)[],
  { onlyExpired, isInTransaction = false }: { readonly onlyExpired: boolean; readonly isInTransaction?: boolean },
): unknown[] {
  const settlements = jobs.map(({ settlement }) => settlement)
  const errors = jobs.map(({ error }) => error)
  return [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    plainArrayOf(jobs.map(({ fence }) => fence)),
    plainArrayOf(settlements.map(({ state }) => state)),
    plainArrayOf(settlements.map(({ attempt }) => attempt)),
    unlessUsual(
      settlements.map(({ crashes }) => crashes),
      0,
    ),
    arrayOf(settlements.map((settlement) => ('delayMs' in settlement ? settlement.delayMs : null))),
    unlessUsual(
      jobs.map(({ result }) => result),
      null,
    ),
    unlessUsual(
      settlements.map((settlement) => ('reason' in settlement ? settlement.reason : null)),
      null,
    ),
    jsonArrayOf(errors.every((error) => error === null) ? [] : errors.map((error) => JSON.stringify(error))),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    arrayOf(jobs.map(({ idempotencyKey }) => idempotencyKey !== null)),
    // The fence moves on with a rescue, so that the late worker's own settlement cannot pass for a repetition of it.
    onlyExpired ? 1 : 0,
    unlessUsual(marks, null),
    isInTransaction,
  ]
}
