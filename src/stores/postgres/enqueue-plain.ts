// enqueue, the fast path: jobs that are ready immediately and refer to no other, one statement. ◄── enqueue.ts · next: wake.ts

import { isHoldfastError } from '../../core/errors.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import { isPlain } from '../../core/reserve.js'
import type { Call, Database, Send } from './database.js'
import { writeOptions } from './options-column.js'
import { arrayOf, jsonArrayOf, plainArrayOf, type Row, sameOrArrayOf, statement, unlessUsual } from './statement.js'
import { statesOf } from './states.js'

interface Parts {
  readonly more?: string
  readonly onConflict?: string
}

/** The statement for plain jobs. A column in which every job has the default is one null instead of an array, and one in which all have
 *  the same value is an array of one: a short array is filled up with nulls. Payloads are one JSON array, which needs no quoting. */
export const plainSql = (places: string, { more = '', onConflict = '' }: Parts = {}) => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place        -- one number for the statement, and its jobs count up from it
), ${more}written AS (
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
  SELECT input.id, moment.now, moment.place + input.ordinal, coalesce(input.priority, 0), coalesce(input.version, 1),
         coalesce(input.queue, ($3::text[])[1]), coalesce(input.type, ($4::text[])[1]), input.payload, input.options,
         input.tags::text[]
    FROM moment,
         ROWS FROM (unnest($2::uuid[], $3::text[], $4::text[], $6::smallint[], $7::smallint[], $8::json[], $9::text[]),
                    json_array_elements($5::json))
           WITH ORDINALITY AS input (id, queue, type, priority, version, options, tags, payload, ordinal)
  ${onConflict}
  RETURNING id, created_at, position, priority, queue, type
), placed AS (
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
  SELECT id, position, created_at, priority, false, queue, type
    FROM written
${places}`

const COUNT_WRITTEN = `)
SELECT count(*)::text FROM written`

const ENQUEUE_PLAIN = statement('enqueue_plain', plainSql(COUNT_WRITTEN))
// For jobs that an earlier try may have written, whose answer was lost. ON CONFLICT costs each row a little, so the statement without it
// is sent first; except in a caller's transaction, which its error would end.
const ENQUEUE_AGAIN = statement('enqueue_again', plainSql(COUNT_WRITTEN, { onConflict: 'ON CONFLICT DO NOTHING' }))

/** True for a job of the fast path. JSON with blanks around it would lose them there. */
export function isOnFastPath(job: NewJob): boolean {
  const { payload } = job
  return isPlain(job) && payload.charCodeAt(0) > 0x20 && payload.charCodeAt(payload.length - 1) > 0x20
}

/** Writes plain jobs. */
export function writePlain(db: Database, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
  return writeOnce(db, jobs, plainCall(db, jobs), () => readPlain(jobs))
}

/** The statement for plain jobs that no earlier try has written, and its values. */
export function plainCall(db: Database, jobs: readonly NewJob[]): Call {
  return [ENQUEUE_PLAIN, valuesOf(db, jobs)]
}

/** The answers of `plainCall`. */
export function readPlain(jobs: readonly NewJob[]): readonly Enqueued[] {
  return jobs.map(({ id }) => ({ id, created: true, state: 'ready' }))
}

/** Sends a call that fails when an earlier try has written one of the jobs. Then it writes those that are missing. */
export async function writeOnce(
  db: Database,
  jobs: readonly NewJob[],
  call: Call,
  read: (row: Row) => readonly Enqueued[],
): Promise<readonly Enqueued[]> {
  const send: Send = (sql, values) => db.send('enqueue', sql, values)
  try {
    const [row] = await send(...call)
    return read(row!)
  } catch (error) {
    if (!isWritten(error)) throw error
    return writePlainThrough(db, send, jobs)
  }
}

/** True when the statement failed because an earlier try had written one of the jobs. */
export function isWritten(error: unknown): boolean {
  return isHoldfastError(error, 'store_refused') && error.details.sqlState === '23505'
}

/** Writes plain jobs that an earlier try may have written, or in a caller's transaction. */
export async function writePlainThrough(
  db: Database,
  send: Send,
  jobs: readonly NewJob[],
): Promise<readonly Enqueued[]> {
  const [row] = await send(ENQUEUE_AGAIN, valuesOf(db, jobs))
  const ids = jobs.map(({ id }) => id)
  const states = Number(row![0]) === jobs.length ? null : await statesOf(send, ids)
  return ids.map((id) => ({ id, created: true, state: states?.get(id) ?? 'ready' }))
}

/** The parameters of every statement for plain jobs. */
export function valuesOf(db: Database, jobs: readonly NewJob[]): unknown[] {
  const priorities = jobs.map(({ priority }) => priority)
  const versions = jobs.map(({ version }) => version)
  const options = jobs.map((job) => writeOptions(job, null))
  const tags = jobs.map(({ tags }) => (tags.length === 0 ? null : arrayOf(tags)))
  return [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    sameOrArrayOf(jobs.map(({ queue }) => queue)),
    sameOrArrayOf(jobs.map(({ type }) => type)),
    jsonArrayOf(jobs.map(({ payload }) => payload)),
    unlessUsual(priorities, 0),
    unlessUsual(versions, 1),
    unlessUsual(options, null),
    unlessUsual(tags, null),
  ]
}
