// Keys that another open transaction is writing. Whether they are taken is known only when it ends. A statement that waited for that
// would block every call behind it on its connection, so such keys are detected and tried again later. ◄── enqueue-general.ts

import { isHoldfastError } from '../../core/errors.js'
import { heldKeys, keyName } from '../../core/held-keys.js'
import type { NewJob } from '../../core/job.js'
import type { Database } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import { IS_OF_JOB } from './key-rows.js'
import { arrayOf, type Statement, statement } from './statement.js'

// Two processes that write the same key at the same moment are not reported: a commit takes less time than this.
const PATIENCE = '50ms'
// If no key is held, the statement waited for a lock on a table. Retention holds such locks for 450 ms at most.
const PATIENCE_FOR_TABLES = '500ms'
/** How many held keys one look finds. Each costs a millisecond. */
const FOUND_MAX = 100

const IN_WRITING = statement(
  'keys_in_writing',
  `
WITH open AS (
  SELECT coalesce(array_agg(asked.queue ORDER BY place), '{}') AS queues,
         coalesce(array_agg(asked.key ORDER BY place), '{}') AS wanted,
         array_agg(place ORDER BY place) AS places
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (queue, key, place)
   -- A job that has its key is the answer, also while an open transaction is ending that job. Not a join: each is looked up by index.
   WHERE (SELECT keys.id
            FROM :schema.keys
           WHERE keys.queue = asked.queue AND keys.key = asked.key
             AND (keys.expires_at > coalesce($4::timestamptz, clock_timestamp()) OR ${IS_OF_JOB})) IS NULL
)
SELECT places[held]::text
  FROM open, :schema.keys_in_writing(open.queues, open.wanted, $3::integer) AS held`,
)

// Of jobs that would replace the payload of another: a transaction that is doing so has locked the key's row.
const IN_REPLACING = statement(
  'keys_in_replacing',
  'SELECT held::text FROM :schema.keys_in_replacing($1::text[], $2::text[], $3::integer) AS held',
)

/** Writes jobs, waiting for no key for longer than a moment. Raises `heldKeys` when one is held; then nothing was written. */
export async function unlessHeld<T>(
  db: Database,
  jobs: readonly NewJob[],
  wereHeld: readonly NewJob[],
  write: (patience: string) => Promise<T>,
): Promise<T> {
  if (wereHeld.length > 0) await refuseHeld(db, wereHeld)
  try {
    return await write(PATIENCE)
  } catch (error) {
    if (!isHoldfastError(error) || error.details.sqlState !== LOCK_NOT_AVAILABLE) throw error
  }
  await refuseHeld(db, jobs)
  return write(PATIENCE_FOR_TABLES)
}

async function refuseHeld(db: Database, jobs: readonly NewJob[]): Promise<void> {
  const byKey = new Map<string, NewJob[]>()
  for (const job of jobs) {
    const name = keyName(job)
    if (name === null) continue
    const same = byKey.get(name)
    if (same === undefined) byKey.set(name, [job])
    else same.push(job)
  }
  const groups = [...byKey.values()]
  const replacing = groups.filter((same) => same.some(({ replace }) => replace !== undefined))
  const written = await findHeld(db, IN_WRITING, groups, [db.now()])
  const locked = replacing.length === 0 ? [] : await findHeld(db, IN_REPLACING, replacing, [])
  const held = [...new Set([...written, ...locked])]
  const areAll = written.length < FOUND_MAX && locked.length < FOUND_MAX
  if (held.length > 0) throw heldKeys(held.flat(), areAll)
}

/** Those of the jobs, by their keys, whose keys are held. */
async function findHeld(
  db: Database,
  look: Statement,
  groups: readonly (readonly NewJob[])[],
  more: readonly unknown[],
): Promise<readonly (readonly NewJob[])[]> {
  const rows = await db.send('held', look, [
    arrayOf(groups.map(([job]) => job!.queue)),
    arrayOf(groups.map(([job]) => job!.idempotencyKey!.key)),
    FOUND_MAX,
    ...more,
  ])
  return rows.map(([place]) => groups[Number(place) - 1]!)
}
