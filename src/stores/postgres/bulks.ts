// bulk actions: written down, then done in batches. Each batch is one transaction with the move of the cursor, so that a process
// that dies in the middle leaves nothing half done. A connection of their own: a filter may be slow, and timed jobs must not wait
// for it. ◄── upkeep/bulk.ts

import { isHoldfastError } from '../../core/errors.js'
import type { JobFilter } from '../../core/job-filter.js'
import {
  BULK_BATCH_MAX,
  type BulkAction,
  type BulkProgress,
  type BulkState,
  type BulkView,
  type CountResult,
  type NewBulk,
} from '../../core/operating.js'
import type { CancelResult, DeleteResult, RequeueResult } from '../../core/operator-store.js'
import { record } from './audit.js'
import { type CancelCalls, cancel } from './cancel.js'
import type { Database, Send } from './database.js'
import { deleteThrough } from './delete.js'
import { findPage } from './list.js'
import { discard, requeueThrough } from './requeue.js'
import { type Row, readDate, readJson, statement } from './statement.js'
import { unblockAfter } from './unblock.js'

const COLUMNS = `bulks.id, action, filter, actor, per_second, most, expected, state, matched, done, refused,
       (extract(epoch FROM created_at) * 1000)::float8, (extract(epoch FROM updated_at) * 1000)::float8, error`

function readBulk(row: Row): BulkView {
  const [id, action, filter, by, perSecond, most, expected, ...progress] = row
  const [state, matched, done, refused, createdAt, updatedAt, error] = progress
  return {
    id: id!,
    action: action as BulkAction,
    filter: readJson(filter) as JobFilter,
    by: by!,
    perSecond: perSecond === null ? null : Number(perSecond),
    limit: Number(most),
    expected: readJson(expected) as CountResult | null,
    state: state as BulkState,
    matched: Number(matched),
    done: Number(done),
    refused: Number(refused),
    createdAt: readDate(createdAt)!,
    updatedAt: readDate(updatedAt)!,
    error: error ?? null,
  }
}

const START = statement(
  'start_bulk',
  `
INSERT INTO :schema.bulks (id, action, filter, actor, state, per_second, most, expected, created_at, updated_at)
SELECT $2::uuid, $3, $4::json, $5, 'waiting', $6::integer, $7::integer, $8::json, moment.now, moment.now
  FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
    ON CONFLICT DO NOTHING
RETURNING ${COLUMNS}`,
)

export async function startBulk(db: Database, bulk: NewBulk): Promise<BulkView> {
  const { id, action, filter, by, perSecond, limit, expected } = bulk
  const values = [id, action, JSON.stringify(filter), by, perSecond, limit, expected && JSON.stringify(expected)]
  return db.transaction('operate', async (send) => {
    const [made] = await send(START, [db.now(), ...values])
    if (made === undefined) return readBulk((await send(GET, [id]))[0]!)
    const details = { action, filter, limit, perSecond }
    await record(db, send, { actor: by, action: 'start bulk', target: id, details })
    return readBulk(made)
  })
}

const BULKS = statement('bulks', `SELECT ${COLUMNS} FROM :schema.bulks ORDER BY bulks.id DESC LIMIT $1`)

export async function bulks(db: Database, limit: number): Promise<readonly BulkView[]> {
  return (await db.send('look', BULKS, [limit])).map(readBulk)
}

const GET = statement('get_bulk', `SELECT ${COLUMNS} FROM :schema.bulks WHERE id = $1::uuid`)

export async function getBulk(db: Database, id: string): Promise<BulkView | null> {
  const [row] = await db.send('look', GET, [id])
  return row === undefined ? null : readBulk(row)
}

const CANCEL = statement(
  'cancel_bulk',
  `
UPDATE :schema.bulks
   SET state = 'cancelled', updated_at = coalesce($1::timestamptz, clock_timestamp())
 WHERE id = $2::uuid
   AND state IN ('waiting', 'running')
RETURNING ${COLUMNS}`,
)

export async function cancelBulk(db: Database, id: string, by: string): Promise<BulkView | null> {
  return db.transaction('operate', async (send) => {
    const [ended] = await send(CANCEL, [db.now(), id])
    if (ended !== undefined) {
      await record(db, send, { actor: by, action: 'cancel bulk', target: id })
      return readBulk(ended)
    }
    const [known] = await send(GET, [id])
    return known === undefined ? null : readBulk(known)
  })
}

// The action that has waited longest, among those that may do a batch now. One that another process works on is skipped.
// With a rate limit, a batch may have the jobs since the last batch, and at most those of one second.
const NEXT = statement(
  'next_bulk',
  `
SELECT cursor,
       CASE WHEN per_second IS NULL THEN $2
            ELSE least($2, per_second, floor(per_second * extract(epoch FROM moment.now - updated_at))) END::integer,
       ${COLUMNS}
  FROM :schema.bulks
 CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
 WHERE state IN ('waiting', 'running')
   AND (per_second IS NULL OR per_second * extract(epoch FROM moment.now - updated_at) >= 1)
 ORDER BY updated_at, id
 LIMIT 1
   FOR UPDATE OF bulks SKIP LOCKED`,
)

const MOVE_ON = statement(
  'move_bulk_on',
  `
UPDATE :schema.bulks
   SET state = $3, matched = matched + $4, done = done + $5, refused = refused + $4 - $5,
       cursor = coalesce($6::uuid, cursor), updated_at = coalesce($1::timestamptz, clock_timestamp())
 WHERE id = $2::uuid`,
)

const FAIL = statement(
  'fail_bulk',
  `
UPDATE :schema.bulks
   SET state = 'failed', error = $3, updated_at = coalesce($1::timestamptz, clock_timestamp())
 WHERE id = $2::uuid
   AND state IN ('waiting', 'running')`,
)

const IS_ANY_OPEN = statement(
  'is_any_bulk_open',
  "SELECT EXISTS (SELECT FROM :schema.bulks WHERE state IN ('waiting', 'running'))",
)

/** Does one batch of one bulk action that is due. */
export async function stepBulk(db: Database, on: CancelCalls): Promise<BulkProgress | null> {
  // Most of the time there is none, and then no connection is opened for it.
  const [[isAnyOpen] = []] = await db.send('look', IS_ANY_OPEN, [])
  if (isAnyOpen !== 't') return null
  const asked = new Set<string>()
  const ready = new Set<string>()
  const ended: string[] = []
  const calls: CancelCalls = {
    asked: (id) => asked.add(id),
    ready: (queue) => ready.add(queue),
    ended: (ids) => ended.push(...ids),
  }
  let bulk: BulkView | null = null
  try {
    const progress = await db.transaction('bulk', async (send) => {
      const [row] = await send(NEXT, [db.now(), BULK_BATCH_MAX])
      if (row === undefined) return null
      const [cursor = null, most, ...columns] = row
      bulk = readBulk(columns)
      return doBatch(db, send, calls, bulk, { before: cursor, most: Number(most) })
    })
    await unblockAfter(db, (sql, values) => db.send('bulk', sql, values), ended, calls.ready)
    asked.forEach(on.asked)
    ready.forEach(on.ready)
    return progress
  } catch (error) {
    // An action that would fail again is ended, so that it does not block the others.
    const failed = bulk as BulkView | null
    if (failed === null || !isHoldfastError(error) || error.retryable) throw error
    await db.send('bulk', FAIL, [db.now(), failed.id, error.message.slice(0, 1_000)])
    return { id: failed.id, action: failed.action, moved: 0, refused: 0, state: 'failed' }
  }
}

async function doBatch(
  db: Database,
  send: Send,
  calls: CancelCalls,
  bulk: BulkView,
  { before, most }: { readonly before: string | null; readonly most: number },
): Promise<BulkProgress> {
  const limit = Math.min(most, bulk.limit - bulk.matched)
  // Jobs created after its start are not part of it.
  const created = [...(bulk.filter.created ?? []), { op: '<=', atMs: bulk.createdAt.getTime() } as const]
  const page = await findPage(db, send, { filter: { ...bulk.filter, created }, limit, before })
  const ids = page.jobs.map((job) => job.id)
  const results = await act(db, send, calls, bulk, ids)
  const moved = results.filter(({ result }) => result !== 'refused' && result !== 'missing').length
  const isOver = page.next === null || bulk.matched + ids.length >= bulk.limit
  const state: BulkState = isOver ? 'done' : 'running'
  await send(MOVE_ON, [db.now(), bulk.id, state, ids.length, moved, page.next])
  return { id: bulk.id, action: bulk.action, moved, refused: ids.length - moved, state }
}

async function act(
  db: Database,
  send: Send,
  calls: CancelCalls,
  { action, by }: BulkView,
  ids: readonly string[],
): Promise<readonly (CancelResult | RequeueResult | DeleteResult)[]> {
  if (action === 'cancel') return cancel(db, send, ids, by, calls)
  if (action === 'requeue') return requeueThrough(db, send, ids, by, calls.ready)
  if (action === 'delete') return deleteThrough(db, send, ids, by, calls.ready)
  return discard(db, send, ids, by)
}
