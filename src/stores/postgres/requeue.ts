// requeue and discard: what an operator does with dead jobs.

import type { CancelResult, RequeueResult } from '../../core/operator-store.js'
import { refusal } from './cancel.js'
import type { Database, Send } from './database.js'
import { HELD_PLACE, intoArrivals } from './held-place.js'
import { BUSY, type KeyedJob, type KeyHolder, takeKeys } from './keys.js'
import { readOptions } from './options-column.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'

// How often a job is tried again that died between the statement and the look-up of its state.
const TRIES_MAX = 3

const LOCK_DEAD = statement(
  'lock_dead',
  `
SELECT dead.id::text, jobs.queue, jobs.options::text
  FROM :schema.dead
  JOIN :schema.jobs ON jobs.id = dead.id
 WHERE dead.id = ANY ($1::uuid[])
 ORDER BY dead.id
   FOR UPDATE OF dead`,
)

const REQUEUE = statement(
  'requeue',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), gone AS (
  DELETE FROM :schema.dead WHERE dead.id = ANY ($2::uuid[]) RETURNING id, fence, priority, queue, type, track, group_name
), unasked AS (
  DELETE FROM :schema.cancels WHERE cancels.id = ANY (ARRAY(SELECT id FROM gone))     -- requested before it died
), placed AS MATERIALIZED (
  SELECT gone.*, moment.now, moment.place + row_number() OVER (ORDER BY gone.id) AS position,
         gone.group_name <> '' AND (SELECT flows.in_order FROM :schema.flows WHERE flows.queue = gone.queue) IS TRUE AS is_ordered,
         -- Nothing of a group that stopped for it has overtaken it: it gets its own place back.
         (SELECT flows.stops_for_dead FROM :schema.flows WHERE flows.queue = gone.queue) IS TRUE AS keeps_place
    FROM gone, moment
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT id, position, now, fence, priority, 0, 0, true, queue, type
    FROM placed
   WHERE track = 0
), into_held AS (
  INSERT INTO :schema.held (id, position, since, fence, track, priority, attempt, crashes, queue, group_name, type)
  SELECT placed.id,
         CASE WHEN is_ordered AND keeps_place THEN (SELECT own.position FROM ${HELD_PLACE('placed')} AS own) ELSE position END,
         now, fence, track, CASE WHEN is_ordered THEN 0 ELSE priority END, 0, 0, queue, group_name, type
    FROM placed
   WHERE track > 0
), moved AS (                                                 -- its place from now on, also after its next retry, and when its queue becomes ordered
  INSERT INTO :schema.places (id, position)
  SELECT id, position FROM placed WHERE track > 0 AND group_name <> '' AND NOT (is_ordered AND keeps_place)
      ON CONFLICT (id) DO UPDATE SET position = excluded.position
), arrived AS (${intoArrivals('placed', '(SELECT place FROM moment)', 'true')}
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT moment.now, $3, 'requeue', gone.id
    FROM gone, moment
)
SELECT gone.id::text, gone.queue,
       (1 + (SELECT count(*) FROM :schema.audit WHERE audit.job = gone.id AND audit.action = 'requeue'))::text
  FROM gone`,
)

/** Requeues dead jobs in one transaction; `onReady` receives their queues after it. */
export async function requeue(
  db: Database,
  ids: readonly string[],
  by: string,
  onReady: (queue: string) => void,
): Promise<readonly RequeueResult[]> {
  if (ids.length === 0) return []
  const queues = new Set<string>()
  const onQueue = (queue: string) => queues.add(queue)
  const results = await db.transaction('operate', (send) => requeueThrough(db, send, ids, by, onQueue))
  for (const queue of queues) onReady(queue)
  return results
}

/** Requeues dead jobs inside a transaction; `onQueue` immediately receives each queue in which jobs will be ready when it commits. */
export async function requeueThrough(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  onQueue: (queue: string) => void,
  tries = 1,
): Promise<readonly RequeueResult[]> {
  if (ids.length === 0) return []
  const heldBy = await lockDead(db, send, ids)
  const free = [...heldBy.keys()].filter((id) => heldBy.get(id) === null)
  const rows = await send(REQUEUE, [db.now(), arrayOf(free), by])
  const requeued = new Map(rows.map(([id, , requeues]) => [id!, Number(requeues)]))
  for (const [, queue] of rows) onQueue(queue!)
  const rest = ids.filter((id) => !requeued.has(id))
  const states = await statesOf(send, rest)
  // It died between the two statements. It is tried again, because a dead job is not refused.
  const isMissed = (id: string) => states.get(id) === 'dead' && !heldBy.has(id)
  const missed = tries < TRIES_MAX ? rest.filter(isMissed) : []
  const again = await requeueThrough(db, send, missed, by, onQueue, tries + 1)
  const later = new Map(again.map((result) => [result.id, result]))
  return ids.map((id): RequeueResult => {
    const asked = later.get(id)
    if (asked !== undefined) return asked
    const requeues = requeued.get(id)
    if (requeues !== undefined) return { id, result: 'requeued', requeues }
    const state = states.get(id)
    if (state === undefined) return { id, result: 'missing' }
    const holder = heldBy.get(id)
    if (holder === undefined || holder === null) return { id, result: 'refused', state }
    return { id, result: 'refused', state, heldBy: holder === BUSY ? null : holder }
  })
}

/** For each of the jobs that is dead: null when its key could be taken or it has none, otherwise who holds it. */
async function lockDead(db: Database, send: Send, ids: readonly string[]): Promise<Map<string, KeyHolder>> {
  const heldBy = new Map<string, KeyHolder>()
  const keyed: KeyedJob[] = []
  for (const [id, queue, options] of await send(LOCK_DEAD, [arrayOf(ids)])) {
    const { key } = readOptions(options)
    heldBy.set(id!, null)
    if (key !== undefined) keyed.push({ id: id!, queue: queue!, key: key.key, ttlMs: key.ttlMs })
  }
  if (keyed.length > 0) for (const [id, holder] of await takeKeys(db, send, keyed)) heldBy.set(id, holder)
  return heldBy
}

const DISCARD = statement(
  'discard',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), gone AS (
  DELETE FROM :schema.dead WHERE dead.id = ANY ($2::uuid[]) RETURNING id, started_at, fence, attempt, crashes, worker
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker)
  SELECT gone.id, moment.now, gone.started_at, gone.fence, gone.attempt, gone.crashes, 'cancelled', gone.worker
    FROM gone, moment
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT moment.now, $3, 'discard', gone.id
    FROM gone, moment
)
SELECT id::text FROM gone`,
)

/** Turns dead jobs into cancelled ones. */
export async function discard(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  tries = 1,
): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const gone = new Set((await send(DISCARD, [db.now(), arrayOf(ids), by])).map(([id]) => id))
  const states = await statesOf(
    send,
    ids.filter((id) => !gone.has(id)),
  )
  const missed = tries < TRIES_MAX ? ids.filter((id) => !gone.has(id) && states.get(id) === 'dead') : []
  const later = new Map((await discard(db, send, missed, by, tries + 1)).map((result) => [result.id, result]))
  return ids.map((id) => later.get(id) ?? (gone.has(id) ? { id, result: 'cancelled' } : refusal(id, states.get(id))))
}
