// settle, the fast path: jobs that have succeeded, one delete and one insert. ◄── settle.ts · the end

import type { SettledJob } from '../../core/job.js'
import type { Call, Database } from './database.js'
import { hasLinks } from './has-links.js'
import { freeKeys } from './key-rows.js'
import { arrayOf, plainArrayOf, statement, unlessUsual } from './statement.js'

/** Deletes each row whose id and fence are those of one settlement. The index finds the rows by id, and a hash table checks the pairs.
 *  So the plan does not depend on statistics: IS TRUE keeps the planner from turning the subquery into a join of its own choice. A row
 *  that is being extended at this moment is waited for, and its newest version is checked. */
export const deleteMatching = (columns: string) => `gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY ($2)
     AND ((running.id, running.fence) IN (SELECT outcome.id, outcome.fence FROM outcome)) IS TRUE
  RETURNING ${columns}
)`

// 16 to 20 µs of the server's time for a job. The statement for any outcome takes 45 to 60. Flow control adds columns and wake-ups.
export const settleSucceededSql = (freed: string, columns = '', woken = ''): string => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), outcome AS MATERIALIZED (
  SELECT *
    FROM unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::smallint[], $6::float8[], $7::json[])
           AS outcome (id, fence, attempt, crashes, ran_ms, result)
), ${deleteMatching(`id, fence, claimed_at, worker${columns}`)}, into_finished AS (
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
SELECT count(*)::text AS count, NULL AS settled, NULL AS cancelled, (SELECT json_agg(job) FROM announced)::text AS parents${woken}
  FROM gone`

const SETTLE_SUCCEEDED = statement('settle_succeeded', settleSucceededSql(''))
const SETTLE_SUCCEEDED_KEYED = statement(
  'settle_succeeded_keyed',
  settleSucceededSql(`, freed AS (${freeKeys('SELECT id FROM gone WHERE id = ANY ($9::uuid[])')}
)`),
)

/** True for a job that `settleSucceeded` can settle. */
export function hasSucceeded({ settlement, error, holdOff, spent }: SettledJob): boolean {
  return settlement.state === 'succeeded' && error === null && holdOff === undefined && spent === undefined
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

/** Makes an array parameter of one value of each job, or null when every job has the usual one. */
export function columnsOf(
  jobs: readonly SettledJob[],
): (read: (job: SettledJob) => string | number | null, usual: number | null) => string | null {
  return (read, usual) => unlessUsual(jobs.map(read), usual)
}
