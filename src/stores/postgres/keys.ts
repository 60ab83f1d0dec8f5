// Keys that dead jobs take again when they are requeued, inside the operator's transaction. ◄── requeue.ts

import { isHoldfastError } from '../../core/errors.js'
import type { Database, Send } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import { IS_OF_JOB, KEY_JOB } from './key-rows.js'
import { arrayOf, statement } from './statement.js'

/** A job that wants its key back. */
export interface KeyedJob {
  readonly id: string
  readonly queue: string
  readonly key: string
  readonly ttlMs: number | null
}

/** Who keeps a job from its key: null for nobody, and `busy` for a transaction that is writing it at this moment. */
export type KeyHolder = string | null | typeof BUSY
export const BUSY: unique symbol = Symbol('busy')

// A held key is read, not locked. If the job still has its own key, the key's time starts again. An expired key is removed.
const HOLDERS = statement(
  'requeue_holders',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), found AS MATERIALIZED (
  SELECT asked.id AS asked, keys.id, keys.place, coalesce(keys.expires_at <= moment.now, keys.expires_at IS NULL AND NOT keys.is_of_job) AS is_over
    FROM moment,
         unnest($2::uuid[], $3::text[], $4::text[]) AS asked (id, queue, key)
   CROSS JOIN LATERAL (
     SELECT keys.ctid AS place, ${KEY_JOB} AS id, keys.expires_at, ${IS_OF_JOB} AS is_of_job
       FROM :schema.keys
      WHERE keys.queue = asked.queue AND keys.key = asked.key
     OFFSET 0
   ) AS keys
), freed AS (
  DELETE FROM :schema.keys WHERE keys.ctid = ANY (ARRAY(SELECT place FROM found WHERE is_over OR found.id = found.asked))
)
SELECT asked::text, id::text FROM found WHERE NOT is_over AND id <> asked`,
)

const TAKE = statement(
  'requeue_keys',
  `
INSERT INTO :schema.keys (queue, key, id, expires_at)
SELECT asked.queue, asked.key, asked.id, coalesce($1::timestamptz, clock_timestamp()) + asked.key_ms * interval '1 millisecond'
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::float8[]) AS asked (id, queue, key, key_ms)
 ORDER BY asked.queue, asked.key, asked.id                    -- of several with one key the oldest gets it
    ON CONFLICT (queue, key) DO NOTHING
RETURNING id::text`,
)

const BEGIN = statement('requeue_savepoint', 'SAVEPOINT taking_keys')
// Somebody's open transaction may be writing a key, for any length of time.
const PATIENCE = statement('requeue_patience', "SET LOCAL lock_timeout = '100ms'")
const UNDO = statement('requeue_undo', 'ROLLBACK TO SAVEPOINT taking_keys')
/** After waiting in vain for this many keys, the rest are answered as busy without waiting. The caller may try them again. */
const WAITS_MAX = 10

/** Takes the keys of jobs again, and answers who has those that could not be taken. */
export async function takeKeys(
  db: Database,
  send: Send,
  jobs: readonly KeyedJob[],
): Promise<ReadonlyMap<string, KeyHolder>> {
  const holders = new Map<string, KeyHolder>()
  for (const [id, holder] of await send(HOLDERS, [db.now(), ...nameColumns(jobs)])) holders.set(id!, holder!)
  const free = jobs.filter(({ id }) => !holders.has(id))
  const taken = await takeFree(db, send, free)
  // For each missing one another job has taken the key, in this call or in another. The second query finds that job.
  const outrun = free.filter(({ id }) => taken.get(id) === 'outrun')
  for (const { id } of free) holders.set(id, taken.get(id) === 'taken' ? null : BUSY)
  if (outrun.length === 0) return holders
  for (const [id, holder] of await send(HOLDERS, [db.now(), ...nameColumns(outrun)])) holders.set(id!, holder!)
  return holders
}

type Taking = 'taken' | 'outrun' | 'locked'

async function takeFree(db: Database, send: Send, jobs: readonly KeyedJob[]): Promise<ReadonlyMap<string, Taking>> {
  const all = await tryTaking(db, send, jobs)
  if (all !== null) return all
  // One of the keys is being written by somebody else, so each is tried by itself.
  const each = new Map<string, Taking>()
  let waits = 0
  for (const job of jobs) {
    const one = waits < WAITS_MAX ? await tryTaking(db, send, [job]) : null
    if (one === null) waits++
    each.set(job.id, one?.get(job.id) ?? 'locked')
  }
  return each
}

/** Null when a key is being written by somebody else, and then none was taken. */
async function tryTaking(
  db: Database,
  send: Send,
  jobs: readonly KeyedJob[],
): Promise<ReadonlyMap<string, Taking> | null> {
  if (jobs.length === 0) return new Map()
  await send(BEGIN, [])
  await send(PATIENCE, [])
  try {
    const lasts = arrayOf(jobs.map(({ ttlMs }) => ttlMs))
    const taken = new Set((await send(TAKE, [db.now(), ...nameColumns(jobs), lasts])).map(([id]) => id))
    return new Map(jobs.map(({ id }) => [id, taken.has(id) ? 'taken' : 'outrun']))
  } catch (error) {
    if (!isHoldfastError(error) || error.details.sqlState !== LOCK_NOT_AVAILABLE) throw error
    await send(UNDO, [])
    return null
  }
}

function nameColumns(jobs: readonly KeyedJob[]): [string, string, string] {
  return [
    arrayOf(jobs.map(({ id }) => id)),
    arrayOf(jobs.map(({ queue }) => queue)),
    arrayOf(jobs.map(({ key }) => key)),
  ]
}
