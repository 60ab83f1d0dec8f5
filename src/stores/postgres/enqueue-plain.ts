// enqueue, the short way: jobs with nothing but a payload, one statement. ◄── enqueue.ts

import { isHoldfastError } from '../../core/errors.js'
import type { ClaimedJob, Enqueued, NewJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import type { Database, Send } from './database.js'
import { readQueueLimits, writeOptions } from './options-column.js'
import {
  type Row as AnswerRow,
  arrayOf,
  jsonArrayOf,
  plainArrayOf,
  sameOrArrayOf,
  statement,
  unlessUsual,
} from './statement.js'
import { statesOf } from './states.js'

// Columns in which every job has the usual value come as one null instead of an array, and those in which all have the same
// as an array of one: a short array is filled up with nulls. Payloads come as one JSON array, which needs no quoting.
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

const ALL_PLACED = `)
SELECT count(*)::text FROM written`

const ENQUEUE_PLAIN = statement('enqueue_plain', plainSql({ places: ALL_PLACED }))
// For jobs that may have been written by an earlier try whose answer was lost. Being ready for that costs each row a little,
// and in a caller's transaction an error would end it, so the plain statement goes first only where it may fail.
const ENQUEUE_AGAIN = statement('enqueue_again', plainSql({ places: ALL_PLACED, onConflict: 'ON CONFLICT DO NOTHING' }))
// Claims the first $10 jobs at the same time, unless their queue is paused: for a worker with idle slots in the process that
// enqueues. They never stand in line, which saves a row there, a claim and a commit.
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

/** Writes jobs that need nothing but a place in line, and claims the first of them where that was asked for. */
export async function writePlain(
  db: Database,
  tx: Send | null,
  jobs: readonly NewJob[],
  claim: ClaimOnEnqueue | undefined,
): Promise<readonly Enqueued[]> {
  const send: Send = tx ?? ((sql, values) => db.send('enqueue', sql, values))
  const values = [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    sameOrArrayOf(jobs.map(({ queue }) => queue)),
    sameOrArrayOf(jobs.map(({ type }) => type)),
    jsonArrayOf(jobs.map(({ payload }) => payload)),
    unlessUsual(
      jobs.map(({ priority }) => priority),
      0,
    ),
    unlessUsual(
      jobs.map(({ version }) => version),
      1,
    ),
    unlessUsual(
      jobs.map((job) => writeOptions(job, null)),
      null,
    ),
    unlessUsual(
      jobs.map(({ tags }) => (tags.length === 0 ? null : arrayOf(tags))),
      null,
    ),
  ]
  if (tx === null && claim !== undefined && isOfOneQueue(jobs, claim.count)) {
    const answers = await writeClaimed(send, jobs, values, claim)
    if (answers !== null) return answers
  }
  const [row] = tx === null ? await writeFirst(send, values) : await send(ENQUEUE_AGAIN, values)
  if (Number(row![0]) === jobs.length) return jobs.map(({ id }) => ({ id, created: true, state: 'ready' }))
  const states = await statesOf(
    send,
    jobs.map(({ id }) => id),
  )
  return jobs.map(({ id }) => ({ id, created: true, state: states.get(id) ?? 'ready' }))
}

function isOfOneQueue(jobs: readonly NewJob[], count: number): boolean {
  const { queue } = jobs[0]!
  return jobs.every((job, index) => index >= count || job.queue === queue)
}

/** Writes jobs and claims the first of them; null when some were written by an earlier try. */
async function writeClaimed(
  send: Send,
  jobs: readonly NewJob[],
  values: readonly unknown[],
  { count, leaseMs, worker }: ClaimOnEnqueue,
): Promise<readonly Enqueued[] | null> {
  const row = await unlessWritten(send(ENQUEUE_CLAIMED, [...values, count, leaseMs, worker]))
  if (row === null) return null
  const nowMs = Number(row[1])
  const taken = Number(row[2])
  const queueLimits = readQueueLimits(row[3])
  return jobs.map((job, index) => {
    const { id } = job
    if (index >= taken) return { id, created: true, state: 'ready' }
    return { id, created: true, state: 'running', claimed: claimedJob(job, nowMs, queueLimits) }
  })
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

async function writeFirst(send: Send, values: readonly unknown[]): ReturnType<Send> {
  const row = await unlessWritten(send(ENQUEUE_PLAIN, values))
  return row === null ? send(ENQUEUE_AGAIN, values) : [row]
}

/** The one row of an answer; null when a job had been written before. */
async function unlessWritten(answer: ReturnType<Send>): Promise<AnswerRow | null> {
  try {
    return (await answer)[0]!
  } catch (error) {
    const isWritten = isHoldfastError(error, 'store_refused') && error.details.sqlState === '23505'
    if (!isWritten) throw error
    return null
  }
}
