// bury: makes jobs dead that have never run here, an import's failed jobs.

import { fingerprint } from '../../core/fingerprint.js'
import type { Burial, BuryResult } from '../../core/operator-store.js'
import type { Database, Send } from './database.js'
import { freeKeysOfWaiting } from './key-rows.js'
import { arrayOf, jsonArrayOf, plainArrayOf, statement } from './statement.js'
import { statesOf } from './states.js'

const keys = freeKeysOfWaiting('SELECT id FROM buried')
// A fence of 0 is below that of every claim: its claims after a requeue, and their failed attempts, are others.
const BURY = statement(
  'bury',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), asked AS MATERIALIZED (
  SELECT *
    FROM ROWS FROM (unnest($2::uuid[], $3::smallint[], $4::text[], $6::text[]), json_array_elements($5::json))
           AS asked (id, attempt, worker, fingerprint, error)
), buried AS MATERIALIZED (
  DELETE FROM :schema.scheduled
   WHERE scheduled.id = ANY (ARRAY(
           SELECT timed.id FROM :schema.scheduled AS timed WHERE timed.id = ANY ($2) AND timed.attempt = 0 AND NOT timed.retrying
              AND timed.fence IS NULL FOR UPDATE))
  RETURNING id, priority, queue, type, track, group_name
), into_dead AS (
  INSERT INTO :schema.dead (id, died_at, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error,
                            fingerprint, track, group_name)
  SELECT buried.id, moment.now, moment.now, 0, buried.priority, asked.attempt, 0, 'attempts', buried.queue, buried.type,
         asked.worker, asked.error, asked.fingerprint, buried.track, buried.group_name
    FROM buried
    JOIN asked ON asked.id = buried.id
   CROSS JOIN moment
), into_attempts AS (
  INSERT INTO :schema.attempts (id, fence, started_at, finished_at, attempt, worker, error)
  SELECT buried.id, 0, moment.now, moment.now, asked.attempt, asked.worker, asked.error
    FROM buried
    JOIN asked ON asked.id = buried.id
   CROSS JOIN moment
), announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT buried.id FROM buried WHERE EXISTS (SELECT FROM :schema.parents WHERE parents.parent = buried.id)
), freed AS (${keys.freed}
), left_key AS (${keys.left}
)
SELECT id::text FROM buried`,
)

/** Buries jobs, each independently of the others. `onBuried` gets those whose children must be unblocked. */
export async function bury(
  db: Database,
  send: Send,
  burials: readonly Burial[],
  onBuried: (ids: readonly string[]) => Promise<unknown> | unknown,
): Promise<readonly BuryResult[]> {
  if (burials.length === 0) return []
  const rows = await send(BURY, [
    db.now(),
    plainArrayOf(burials.map(({ id }) => id)),
    plainArrayOf(burials.map(({ attempt }) => attempt)),
    arrayOf(burials.map(({ worker }) => worker)),
    jsonArrayOf(burials.map(({ error }) => JSON.stringify(error))),
    arrayOf(burials.map(({ error }) => fingerprint(error))),
  ])
  const buried = new Set(rows.map(([id]) => id!))
  await onBuried([...buried])
  const others = burials.filter(({ id }) => !buried.has(id)).map(({ id }) => id)
  const states = others.length === 0 ? new Map() : await statesOf(send, others)
  return burials.map(({ id }): BuryResult => {
    const state = states.get(id)
    // Repeating it changes nothing.
    if (buried.has(id) || state === 'dead') return { id, result: 'buried' }
    return state === undefined ? { id, result: 'missing' } : { id, result: 'refused', state }
  })
}
