// enqueue, the fast path: jobs that are ready immediately and refer to no other, one statement. ◄── enqueue.ts · next: claim.ts

import { isHoldfastError } from '../../core/errors.js'
import type { ClaimedJob, Enqueued, NewJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import type { Database, Send } from './database.js'
import { readQueueLimits, writeOptions } from './options-column.js'
import {
  arrayOf,
  jsonArrayOf,
  plainArrayOf,
  type Row,
  type Statement,
  sameOrArrayOf,
  statement,
  unlessUsual,
} from './statement.js'
import { statesOf } from './states.js'

// A column in which every job has the default comes as one null instead of an array, and one in which all have the same value as an
// array of one: a short array is filled up with nulls. Payloads come as one JSON array, which needs no quoting.
const plainSql = ({ more = '', onConflict = '', places }: { more?: string; onConflict?: string; places: string }) => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place        -- one number a statement, the batch counts up beneath it
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

const ENQUEUE_PLAIN = statement('enqueue_plain', plainSql({ places: COUNT_WRITTEN }))
// For jobs that an earlier try may have written, whose answer was lost. ON CONFLICT costs each row a little, so the statement without it
// goes first; except in a caller's transaction, which its error would end.
const ENQUEUE_AGAIN = statement(
  'enqueue_again',
  plainSql({ places: COUNT_WRITTEN, onConflict: 'ON CONFLICT DO NOTHING' }),
)
// Claims the first $10 jobs atomically with the write, unless their queue is paused: for a worker with idle slots in the same process.
// They never enter the backlog, which saves a row there, a claim and a commit.
const ENQUEUE_CLAIMED = statement(
  'enqueue_claimed',
  plainSql({
    more: `open_queue AS MATERIALIZED (
  SELECT settings FROM :schema.queues WHERE name = ($3::text[])[1] AND NOT paused
), taken AS MATERIALIZED (
  SELECT moment.place + CASE WHEN EXISTS (SELECT FROM open_queue) THEN $10::integer ELSE 0 END AS last,
         round(date_part('epoch', moment.now) * 1000)::bigint AS now_ms
    FROM moment
), `,
    places: `   WHERE position > (SELECT last FROM taken)
), leased AS (
  INSERT INTO :schema.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested,
                               queue, type, worker)
  SELECT id, taken.now_ms, created_at, created_at + $11 * interval '1 millisecond', priority, 1, 0, false, false, queue, type,
         $12
    FROM written, taken
   WHERE position <= taken.last
)
SELECT (SELECT count(*) FROM written)::text, taken.now_ms::text, (taken.last - moment.place)::text,
       (SELECT settings FROM open_queue)::text
  FROM taken, moment`,
  }),
)

/** Writes plain jobs, and claims the first of them where `claim` asks for it. */
export async function writePlain(
  db: Database,
  tx: Send | null,
  jobs: readonly NewJob[],
  claim: ClaimOnEnqueue | undefined,
): Promise<readonly Enqueued[]> {
  if (tx !== null) return writeAgain(db, tx, jobs)
  const send: Send = (sql, values) => db.send('enqueue', sql, values)
  try {
    const [row] = await send(...plainCall(db, jobs, claim))
    return readPlain(jobs, row!)
  } catch (error) {
    if (!isWritten(error)) throw error
    return writeAgain(db, send, jobs)
  }
}

/** The statement for plain jobs that no earlier try has written, and its values. */
export function plainCall(
  db: Database,
  jobs: readonly NewJob[],
  claim: ClaimOnEnqueue | undefined,
): [Statement, unknown[]] {
  const values = valuesOf(db, jobs)
  if (claim === undefined || !isOfOneQueue(jobs, claim.count)) return [ENQUEUE_PLAIN, values]
  return [ENQUEUE_CLAIMED, [...values, claim.count, claim.leaseMs, claim.worker]]
}

/** Reads the one row of `plainCall`. */
export function readPlain(jobs: readonly NewJob[], row: Row): readonly Enqueued[] {
  const [, now, claimed, settings] = row
  const nowMs = Number(now)
  const queueLimits = readQueueLimits(settings ?? null)
  return jobs.map((job, index) => {
    const { id } = job
    if (index >= Number(claimed ?? 0)) return { id, created: true, state: 'ready' }
    return { id, created: true, state: 'running', claimed: claimedJob(job, nowMs, queueLimits) }
  })
}

/** True when the statement failed because an earlier try had written one of the jobs. */
export function isWritten(error: unknown): boolean {
  return isHoldfastError(error, 'store_refused') && error.details.sqlState === '23505'
}

async function writeAgain(db: Database, send: Send, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
  const [row] = await send(ENQUEUE_AGAIN, valuesOf(db, jobs))
  const ids = jobs.map(({ id }) => id)
  const states = Number(row![0]) === jobs.length ? null : await statesOf(send, ids)
  return ids.map((id) => ({ id, created: true, state: states?.get(id) ?? 'ready' }))
}

function valuesOf(db: Database, jobs: readonly NewJob[]): unknown[] {
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

function isOfOneQueue(jobs: readonly NewJob[], count: number): boolean {
  const { queue } = jobs[0]!
  return jobs.every((job, index) => index >= count || job.queue === queue)
}

function claimedJob(job: NewJob, nowMs: number, queueLimits: JobLimits): ClaimedJob {
  return {
    id: job.id,
    fence: nowMs,
    queue: job.queue,
    type: job.type,
    payload: job.payload,
    version: job.version,
    priority: job.priority,
    attempt: 1,
    crashes: 0,
    createdAtMs: nowMs,
    limits: job.limits,
    queueLimits,
    idempotencyKey: null,
    tags: job.tags,
    trace: job.trace,
  }
}
