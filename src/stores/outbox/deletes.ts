// delete over an outbox: the row of a job has its payload, and its completion has the result, so both go with it. That it was deleted is kept
// for as long as rows are: a server that comes back without its last writes has the job again, and is told again. ◄── store.ts, dispatcher.ts

import type { DeleteResult } from '../../core/operator-store.js'
import type { Database, Send } from '../postgres/database.js'
import { arrayOf, plainArrayOf, type Row, statement } from '../postgres/statement.js'
import type { RedisStore } from '../redis/index.js'
import { epochChanged, holdEpoch } from './epochs.js'

const ROWS_MAX = 500
/** When a job is tried again that runs: it was claimed before the server was told again. */
const RUNNING_MS = 1_000

// Whoever is sending one of the rows has locked it: this waits for that. Nobody sends them afterwards.
const LOCK = statement(
  'outbox_delete_lock',
  `SELECT id::text, part::text FROM :schema.outbox WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE`,
)

const NUMBERS = statement('outbox_numbers', `SELECT part::text, number::text FROM :schema.outbox_epochs`)

const DELETE = statement(
  'outbox_delete',
  `
WITH asked AS (
  SELECT * FROM unnest($1::uuid[], $2::integer[], $3::bigint[]) AS new (id, part, sent_in)
), rows AS (
  DELETE FROM :schema.outbox USING asked WHERE outbox.id = asked.id
), completions AS (
  DELETE FROM :schema.outbox_completions AS kept USING asked WHERE kept.id = asked.id
)
INSERT INTO :schema.outbox_deletes (id, part, actor, sent_in)
SELECT id, part, $4, sent_in FROM asked
    ON CONFLICT (id) DO UPDATE SET sent_in = EXCLUDED.sent_in, deleted_at = EXCLUDED.deleted_at`,
)

/** Deletes jobs in the store, in the outbox, or in both. */
export function deleteEverywhere(
  db: Database,
  store: RedisStore,
  ids: readonly string[],
  by: string,
): Promise<readonly DeleteResult[]> {
  return underLock({ db, store, ids, by }, async (rows) => {
    const answers = await store.delete(ids, by)
    const known = answers.map((answer): DeleteResult => {
      return answer.result === 'missing' && rows.has(answer.id) ? { id: answer.id, result: 'deleted' } : answer
    })
    return { answer: known, deleted: known.flatMap(({ id, result }) => (result === 'deleted' ? [id] : [])) }
  })
}

/** Does a batch of a bulk action that deletes jobs in the store, and deletes from the outbox those that it has deleted. */
export function deleteWith<T>(
  db: Database,
  store: RedisStore,
  { ids, by, act }: { readonly ids: readonly string[]; readonly by: string; readonly act: () => Promise<T> },
): Promise<T> {
  return underLock({ db, store, ids, by }, async () => {
    const answer = await act()
    const left = await Promise.all(ids.map((id) => store.get(id)))
    return { answer, deleted: ids.filter((_, at) => left[at] === null) }
  })
}

interface Deleting {
  readonly db: Database
  readonly store: RedisStore
  readonly ids: readonly string[]
  readonly by: string
}

type Work<T> = (
  rows: ReadonlyMap<string, number>,
) => Promise<{ readonly answer: T; readonly deleted: readonly string[] }>

/** The store deletes while nobody can send the rows of these jobs. Should this fail afterwards, the call is repeated by whoever made it. */
function underLock<T>({ db, store, ids, by }: Deleting, work: Work<T>): Promise<T> {
  return db.transaction('operate', async (send) => {
    const rows = new Map((await send(LOCK, [plainArrayOf(ids)])).map(([id, part]) => [id!, Number(part)]))
    // As they were before: a server that changes meanwhile is told again.
    const numbers = new Map((await send(NUMBERS, [])).map(([part, number]) => [Number(part), number!]))
    const { answer, deleted } = await work(rows)
    const unique = [...new Set(deleted)]
    if (unique.length > 0) {
      const parts = unique.map((id) => rows.get(id) ?? store.shardOf(id))
      const sentIn = parts.map((part) => Number(numbers.get(part) ?? 0))
      await send(DELETE, [plainArrayOf(unique), arrayOf(parts), arrayOf(sentIn), by])
    }
    return answer
  })
}

const TAKE = statement(
  'outbox_take_deletes',
  `
SELECT id::text, actor
  FROM :schema.outbox_deletes
 WHERE part = $1
   AND sent_in < $2::bigint
   AND try_at <= clock_timestamp()
 ORDER BY sent_in
 LIMIT ${ROWS_MAX}
   FOR UPDATE SKIP LOCKED`,
)

const MARK = statement(
  'outbox_mark_deletes',
  `
UPDATE :schema.outbox_deletes AS kept
   SET sent_in = CASE WHEN asked.is_sent THEN $3::bigint ELSE kept.sent_in END,
       try_at  = CASE WHEN asked.is_sent THEN '-infinity' ELSE clock_timestamp() + ${RUNNING_MS} * interval '1 ms' END
  FROM unnest($1::uuid[], $2::boolean[]) AS asked (id, is_sent)
 WHERE kept.id = asked.id`,
)

interface Telling {
  readonly db: Database
  readonly store: RedisStore
  readonly part: number
  readonly epoch: string
}

/** Deletes again what was deleted in an earlier life of the server. Answers whether all of it was looked at. */
export function deleteAgain({ db, store, part, epoch }: Telling): Promise<boolean> {
  return db.transaction('upkeep', async (send) => {
    const number = await holdEpoch(send, part, epoch)
    if (number === null) throw epochChanged(part)
    const rows = await send(TAKE, [part, number])
    if (rows.length === 0) return true
    await tellAgain({ store, send, number }, rows)
    if ((await store.epochOf(part)) !== epoch) throw epochChanged(part)
    return rows.length < ROWS_MAX
  })
}

async function tellAgain(
  { store, send, number }: { readonly store: RedisStore; readonly send: Send; readonly number: string },
  rows: readonly Row[],
): Promise<void> {
  for (const by of new Set(rows.map(([, actor]) => actor))) {
    const ids = rows.flatMap(([id, actor]) => (actor === by ? [id!] : []))
    const answers = await store.delete(ids, by!)
    await send(MARK, [plainArrayOf(ids), arrayOf(answers.map(({ result }) => result !== 'refused')), number])
  }
}
