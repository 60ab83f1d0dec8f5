// Jobs that come after others: moved on when their parents have finished. Called for the children of what was just settled,
// cancelled or enqueued, and by promote for any that a crash left over.

import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { arrayOf, statement } from './statement.js'

// What is true of the parents is read from the tables of finished jobs, so that two parents that end at the same moment
// need no common counter: whichever call comes last sees both.
const UNBLOCK = statement(
  'unblock',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), verdict AS MATERIALIZED (
  SELECT blocked.id,
         bool_and(ended.state IS NOT NULL) AS all_ended,
         coalesce(bool_or(ended.state IN ('dead', 'cancelled')), false) AND bool_or(blocked.cancel_with_parents) AS is_cancelled
    FROM pg_catalog.unnest($2::uuid[]) AS asked (id)
   CROSS JOIN LATERAL (                                       -- one look-up for each job, whatever statistics say
     SELECT blocked.id, blocked.cancel_with_parents FROM :schema.blocked WHERE blocked.id = asked.id OFFSET 0
   ) AS blocked
   CROSS JOIN LATERAL (
     SELECT parents.parent FROM :schema.parents WHERE parents.child = asked.id OFFSET 0
   ) AS parents
   CROSS JOIN LATERAL (
     SELECT CASE WHEN EXISTS (SELECT FROM :schema.dead WHERE dead.id = parents.parent) THEN 'dead'
                 WHEN EXISTS (SELECT FROM :schema.finished WHERE finished.id = parents.parent)
                 THEN (SELECT ending::text FROM :schema.finished WHERE finished.id = parents.parent)
                 -- A parent that was pruned had finished long before.
                 WHEN NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = parents.parent) THEN 'succeeded'
             END AS state
   ) AS ended
   GROUP BY blocked.id
), gone AS (
  DELETE FROM :schema.blocked
   WHERE blocked.id = ANY (ARRAY(SELECT id FROM verdict WHERE all_ended OR is_cancelled))
  RETURNING blocked.id, blocked.run_at, blocked.priority, blocked.queue, blocked.type
), moved AS MATERIALIZED (
  SELECT gone.*, moment.now, moment.place + row_number() OVER (ORDER BY gone.id) AS position,
         CASE WHEN gone.id IN (SELECT id FROM verdict WHERE is_cancelled) THEN 'cancelled'
              WHEN gone.run_at > moment.now THEN 'scheduled'
              ELSE 'ready'
          END AS state
    FROM gone
   CROSS JOIN moment
), unlinked AS (
  DELETE FROM :schema.parents WHERE parents.child = ANY (ARRAY(SELECT id FROM moved))
), freed AS (
  DELETE FROM :schema.keys
   WHERE keys.id = ANY (ARRAY(SELECT id FROM moved WHERE state = 'cancelled')) AND keys.expires_at IS NULL
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, attempt, crashes, ending)
  SELECT id, now, 0, 0, 'cancelled'
    FROM moved
   WHERE state = 'cancelled'
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
  SELECT id, run_at, priority, 0, 0, false, queue, type
    FROM moved
   WHERE state = 'scheduled'
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
  SELECT id, position, now, priority, true, queue, type
    FROM moved
   WHERE state = 'ready'
)
SELECT id::text, state, queue FROM moved`,
)

const CHILDREN = statement(
  'children',
  'SELECT DISTINCT child::text FROM :schema.parents WHERE parent = ANY ($1::uuid[])',
)

// A chain that is cancelled falls link by link; what is longer than this is left to the next sweep.
const LINKS_MAX = 100

/** Moves on those of the blocked jobs whose parents have finished, and what hangs on the ones cancelled by that. */
export async function unblockChildren(
  db: Database,
  send: Send,
  children: readonly string[],
  onReady: (queue: string) => void = () => {},
): Promise<Map<string, JobState>> {
  const states = new Map<string, JobState>()
  let asked = children
  for (let link = 0; link < LINKS_MAX && asked.length > 0; link++) {
    const moved = await send(UNBLOCK, [db.now(), arrayOf(asked)])
    const cancelled: string[] = []
    for (const [id, state, queue] of moved) {
      states.set(id!, state as JobState)
      if (state === 'cancelled') cancelled.push(id!)
      if (state === 'ready') onReady(queue!)
    }
    asked = cancelled.length > 0 ? await childrenOf(send, cancelled) : []
  }
  return states
}

/** Moves on the children of jobs that have finished. */
export async function unblockAfter(
  db: Database,
  send: Send,
  parents: readonly string[],
  onReady: (queue: string) => void,
): Promise<void> {
  if (parents.length > 0) await unblockChildren(db, send, await childrenOf(send, parents), onReady)
}

async function childrenOf(send: Send, parents: readonly string[]): Promise<string[]> {
  return (await send(CHILDREN, [arrayOf(parents)])).map(([child]) => child!)
}
