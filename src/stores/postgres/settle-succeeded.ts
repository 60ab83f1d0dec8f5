// The short way through settle, for batches in which every job succeeded: one delete, one insert. Most batches are such, and
// the long way, which is ready for every outcome, takes about twice the server's time for each job.

import type { SettledJob } from '../../core/job.js'
import type { Database, Send } from './database.js'
import { arrayOf, readJson, statement } from './statement.js'

// By id and fence in one condition on one table, so that no statistics can talk the planner into another plan; a row that is
// being extended at this moment is waited for, and its newest version is what the condition is checked against.
const SETTLE_SUCCEEDED = statement(
  'settle_succeeded',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), outcome AS MATERIALIZED (
  SELECT *
    FROM unnest($2::uuid[], $4::smallint[], $5::smallint[], $6::float8[], $7::json[])
           AS outcome (id, attempt, crashes, ran_ms, result)
), gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY ($2)
     AND running.fence = ($3::jsonb ->> running.id::text)::bigint
  RETURNING id, fence, claimed_at, worker
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
  SELECT gone.id, moment.now, coalesce(moment.now - outcome.ran_ms * interval '1 millisecond', gone.claimed_at), gone.fence,
         outcome.attempt, outcome.crashes, 'succeeded', gone.worker, outcome.result
    FROM gone
    JOIN outcome ON outcome.id = gone.id
   CROSS JOIN moment
), freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM gone WHERE id = ANY ($8::uuid[])))
     AND keys.expires_at IS NULL
)
SELECT count(*)::text,
       (json_agg(gone.id) FILTER (WHERE EXISTS (SELECT FROM :schema.parents WHERE parents.parent = gone.id)))::text
  FROM gone`,
)

/** True for a batch that can go the short way. */
export function isSucceeded(jobs: readonly SettledJob[]): boolean {
  const ids = new Set<string>()
  for (const { id, settlement, error } of jobs) {
    if (settlement.state !== 'succeeded' || error !== null) return false
    ids.add(id)
  }
  // Two leases of one job cannot both hold, and the long way tells them apart.
  return ids.size === jobs.length
}

/** Settles a batch that isSucceeded. */
export async function settleSucceeded(
  db: Database,
  send: Send,
  jobs: readonly SettledJob[],
): Promise<{ readonly count: number; readonly parents: readonly string[] }> {
  const keyed = jobs.filter(({ idempotencyKey }) => idempotencyKey !== null)
  const [row] = await send(SETTLE_SUCCEEDED, [
    db.now(),
    arrayOf(jobs.map(({ id }) => id)),
    fencesOf(jobs),
    arrayOf(jobs.map(({ settlement }) => settlement.attempt)),
    arrayOf(jobs.map(({ settlement }) => settlement.crashes)),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    arrayOf(jobs.map(({ result }) => result)),
    arrayOf(keyed.map(({ id }) => id)),
  ])
  return { count: Number(row![0]), parents: (readJson(row![1]) ?? []) as string[] }
}

/** A JSON object with the fence of each id, which the server can look up. */
function fencesOf(jobs: readonly SettledJob[]): string {
  let text = '{'
  for (const { id, fence } of jobs) text += `${text.length > 1 ? ',' : ''}"${id}":${fence}`
  return `${text}}`
}
