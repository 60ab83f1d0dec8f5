// The short way through settle, for jobs that succeeded: one delete, one insert. Most do, and the long way, which is ready for
// every outcome, takes about twice the server's time for each job.

import { isHoldfastError } from '../../core/errors.js'
import type { SettledJob } from '../../core/job.js'
import type { Database, Send } from './database.js'
import { hasLinks } from './has-links.js'
import { arrayOf, DIVISION_BY_ZERO, plainArrayOf, type Row, readJson, statement, unlessUsual } from './statement.js'

// The delete is by a condition on one table, so that no statistics can talk the planner into another plan; a row that is being
// extended at this moment is waited for, and its newest version is what the condition is checked against. A batch has few
// fences, those of the claims it comes from, so they are compared as a set first. That a row has the fence of its own
// settlement is what the join with the outcomes asks, and a row that fails it must not be gone: then the whole statement
// fails, and the long way tells the two apart. Columns in which every job has the usual value come as one null.
const settleSucceededSql = (freed: string) => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), outcome AS MATERIALIZED (
  SELECT *
    FROM unnest($2::uuid[], $3::bigint[], $5::smallint[], $6::smallint[], $7::float8[], $8::json[])
           AS outcome (id, fence, attempt, crashes, ran_ms, result)
), gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY ($2)
     AND running.fence = ANY ($4::bigint[])
  RETURNING id, fence, claimed_at, worker
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
  SELECT gone.id, moment.now, coalesce(moment.now - outcome.ran_ms * interval '1 millisecond', gone.claimed_at), gone.fence,
         coalesce(outcome.attempt, 1), coalesce(outcome.crashes, 0), 'succeeded', gone.worker, outcome.result
    FROM gone
    JOIN outcome ON outcome.id = gone.id AND outcome.fence = gone.fence
   CROSS JOIN moment
  RETURNING 1
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT gone.id FROM gone WHERE ${hasLinks('gone.id', '$9')}
  RETURNING job
)${freed}
SELECT (count(*) / CASE WHEN count(*) = (SELECT count(*) FROM into_finished) THEN 1 ELSE 0 END)::text,
       (SELECT json_agg(job) FROM announced)::text
  FROM gone`

const SETTLE_SUCCEEDED = statement('settle_succeeded', settleSucceededSql(''))
const SETTLE_SUCCEEDED_KEYED = statement(
  'settle_succeeded_keyed',
  settleSucceededSql(`, freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM gone WHERE id = ANY ($10::uuid[])))
     AND keys.expires_at IS NULL
)`),
)

/** True for a job that can go the short way. */
export function hasSucceeded({ settlement, error }: SettledJob): boolean {
  return settlement.state === 'succeeded' && error === null
}

/** Whether each is of another job. Two leases of one job cannot both hold, and the long way tells them apart. */
export function areDistinct(jobs: readonly SettledJob[]): boolean {
  return new Set(jobs.map(({ id }) => id)).size === jobs.length
}

/** Settles jobs that have succeeded and are distinct; null when only the long way can, and then nothing has changed. */
export async function settleSucceeded(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
  isInTransaction: boolean,
): Promise<{ readonly count: number; readonly parents: readonly string[] } | null> {
  const keyed = jobs.filter(({ idempotencyKey }) => idempotencyKey !== null).map(({ id }) => id)
  const fences = jobs.map(({ fence }) => fence)
  const values = [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    plainArrayOf(fences),
    plainArrayOf([...new Set(fences)]),
    unlessUsual(
      jobs.map(({ settlement }) => settlement.attempt),
      1,
    ),
    unlessUsual(
      jobs.map(({ settlement }) => settlement.crashes),
      0,
    ),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    unlessUsual(
      jobs.map(({ result }) => result),
      null,
    ),
    isInTransaction,
  ]
  const row = await unlessMixed(() =>
    keyed.length === 0
      ? send(SETTLE_SUCCEEDED, values)
      : send(SETTLE_SUCCEEDED_KEYED, [...values, plainArrayOf(keyed)]),
  )
  return row === null ? null : { count: Number(row[0]), parents: (readJson(row[1]) ?? []) as string[] }
}

/** The one row of an answer; null when a row had the fence of another, and then nothing has changed. */
export async function unlessMixed(settling: () => Promise<readonly Row[]>): Promise<Row | null> {
  try {
    const [row] = await settling()
    return row!
  } catch (error) {
    if (isHoldfastError(error) && error.details.sqlState === DIVISION_BY_ZERO) return null
    throw error
  }
}
