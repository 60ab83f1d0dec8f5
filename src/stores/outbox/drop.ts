// Drops rows that are no longer needed, a bounded number in a call. What was sent in an earlier life of the server is still to be sent again,
// as long as the store would know it. ◄── dispatcher.ts

import type { Database } from '../postgres/database.js'
import { type Statement, statement } from '../postgres/statement.js'

const ROWS_MAX = 1_000
/** For how long refused jobs can be looked at. */
const REFUSED_MS = 7 * 86_400_000

interface Rows {
  readonly table: string
  readonly key: string
  /** When the row was sent, or written. */
  readonly time: string
  /** Which rows go at all, and which of them need not be sent again. */
  readonly goes?: string
  readonly isOver?: string
}

// $1: the part; $2: how long rows stay; $3: how long the store keeps finished jobs.
function dropRows(name: string, { table, key, time, goes = 'true', isOver = 'false' }: Rows): Statement {
  return statement(
    name,
    `
DELETE FROM :schema.${table}
 WHERE ${key} IN (SELECT old.${key}
                    FROM :schema.${table} AS old
                   WHERE old.${time} < clock_timestamp() - $2::bigint * interval '1 ms'
                     AND ${goes}
                     AND old.part = $1
                     AND (${isOver}
                          OR old.${time} < clock_timestamp() - $3::bigint * interval '1 ms'
                          OR old.sent_in >= (SELECT number FROM :schema.outbox_epochs WHERE outbox_epochs.part = $1))
                   ORDER BY old.${time}
                   LIMIT ${ROWS_MAX}
                     FOR UPDATE SKIP LOCKED)`,
  )
}

const DROPS = [
  dropRows('outbox_drop', {
    ...{ table: 'outbox', key: 'seq', time: 'sent_at' },
    ...{ goes: `old.outcome <> 'refused'`, isOver: `old.outcome <> 'sent'` },
  }),
  dropRows('outbox_drop_completions', { table: 'outbox_completions', key: 'id', time: 'sent_at' }),
  dropRows('outbox_drop_deletes', { table: 'outbox_deletes', key: 'id', time: 'deleted_at' }),
]

const DROP_REFUSED = statement(
  'outbox_drop_refused',
  `
DELETE FROM :schema.outbox
 WHERE seq IN (SELECT old.seq
                 FROM :schema.outbox AS old
                WHERE old.sent_at < clock_timestamp() - ${REFUSED_MS}::bigint * interval '1 ms'
                  AND old.outcome = 'refused'
                  AND old.part = $1
                ORDER BY old.sent_at
                LIMIT ${ROWS_MAX})`,
)

export async function dropOldRows(
  db: Database,
  { part, keepMs, knownMs }: { readonly part: number; readonly keepMs: number; readonly knownMs: number },
): Promise<void> {
  for (const drop of DROPS) await db.send('upkeep', drop, [part, keepMs, knownMs])
  await db.send('upkeep', DROP_REFUSED, [part])
}
