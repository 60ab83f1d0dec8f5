// requeue and discard: what an operator does with the dead.

import type { CancelResult, RequeueResult } from '../../core/store.js'
import { refusal } from './cancel.js'
import type { Database, Send } from './database.js'
import { readOptions } from './options-column.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'

const LOCK_DEAD = statement(
  'lock_dead',
  `
SELECT dead.id::text, jobs.options::text
  FROM :schema.dead
  JOIN :schema.jobs ON jobs.id = dead.id
 WHERE dead.id = ANY ($1::uuid[])
 ORDER BY dead.id
   FOR UPDATE OF dead`,
)

// The key is taken again as by an enqueue: whoever holds it stays the holder.
const TAKE_KEY = statement(
  'take_key',
  `
INSERT INTO :schema.keys (queue, key, id, expires_at)
SELECT jobs.queue, $3, jobs.id, coalesce($1::timestamptz, clock_timestamp()) + $4::float8 * interval '1 millisecond'
  FROM :schema.jobs
 WHERE jobs.id = $2::uuid
    ON CONFLICT (queue, key) DO UPDATE
   SET id = CASE WHEN keys.id = excluded.id OR keys.expires_at <= coalesce($1, clock_timestamp()) THEN excluded.id ELSE keys.id END,
       expires_at = CASE WHEN keys.id = excluded.id OR keys.expires_at <= coalesce($1, clock_timestamp())
                         THEN excluded.expires_at ELSE keys.expires_at END
RETURNING id::text`,
)

const REQUEUE = statement(
  'requeue',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), gone AS (
  DELETE FROM :schema.dead WHERE dead.id = ANY ($2::uuid[]) RETURNING id, fence, priority, queue, type
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT gone.id, moment.place + row_number() OVER (ORDER BY gone.id), moment.now, gone.fence, gone.priority, 0, 0, true,
         gone.queue, gone.type
    FROM gone, moment
), audited AS (
  INSERT INTO :schema.audit (at, actor, action, job)
  SELECT moment.now, $3, 'requeue', gone.id
    FROM gone, moment
)
SELECT gone.id::text, gone.queue,
       (1 + (SELECT count(*) FROM :schema.audit WHERE audit.job = gone.id AND audit.action = 'requeue'))::text
  FROM gone`,
)

/** Revives dead jobs in one transaction; `onReady` is told of their queues after it. */
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

/** Revives dead jobs inside a transaction; `onQueue` is told at once where jobs will be ready when it commits. */
export async function requeueThrough(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  onQueue: (queue: string) => void,
): Promise<readonly RequeueResult[]> {
  if (ids.length === 0) return []
  const heldBy = await takeKeys(db, send, ids)
  const free = [...heldBy.keys()].filter((id) => heldBy.get(id) === null)
  const rows = await send(REQUEUE, [db.now(), arrayOf(free), by])
  const replays = new Map(rows.map(([id, , replay]) => [id!, Number(replay)]))
  for (const [, queue] of rows) onQueue(queue!)
  const rest = ids.filter((id) => !replays.has(id))
  const states = await statesOf(send, rest)
  return ids.map((id): RequeueResult => {
    const replay = replays.get(id)
    if (replay !== undefined) return { id, result: 'requeued', replay }
    const state = states.get(id)
    if (state === undefined) return { id, result: 'missing' }
    const holder = heldBy.get(id)
    return { id, result: 'refused', state, ...(typeof holder === 'string' ? { heldBy: holder } : {}) }
  })
}

/** For each of the jobs that is dead: null when its key could be taken or it has none, otherwise who holds it. */
async function takeKeys(db: Database, send: Send, ids: readonly string[]): Promise<Map<string, string | null>> {
  const heldBy = new Map<string, string | null>()
  for (const [id, options] of await send(LOCK_DEAD, [arrayOf(ids)])) {
    const { key } = readOptions(options)
    if (key === undefined) heldBy.set(id!, null)
    else {
      const [row] = await send(TAKE_KEY, [db.now(), id, key.key, key.ttlMs])
      heldBy.set(id!, row?.[0] === id ? null : (row?.[0] ?? null))
    }
  }
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
): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const gone = new Set((await send(DISCARD, [db.now(), arrayOf(ids), by])).map(([id]) => id))
  const states = await statesOf(
    send,
    ids.filter((id) => !gone.has(id)),
  )
  return ids.map((id) => (gone.has(id) ? { id, result: 'cancelled' } : refusal(id, states.get(id))))
}
