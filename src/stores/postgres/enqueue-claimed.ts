// enqueue for a worker of the same process: the statement that writes plain jobs claims the first of them as well. ◄── enqueue.ts

import type { ClaimedJob, Enqueued, NewJob } from '../../core/job.js'
import type { JobLimits } from '../../core/limits.js'
import { originOf } from '../../core/origin.js'
import type { ClaimOnEnqueue } from '../../core/reserve.js'
import type { Call, Database } from './database.js'
import { plainCall, plainSql, readPlain, valuesOf, writeOnce } from './enqueue-plain.js'
import { readQueueLimits } from './options-column.js'
import { type Row, statement } from './statement.js'

// Claims the first $10 jobs atomically with the write, unless their queue is paused: for a worker with idle slots in the same process.
// They never enter the backlog, which saves a row there, a claim and a commit.
const ENQUEUE_CLAIMED = statement(
  'enqueue_claimed',
  plainSql(
    `   WHERE position > (SELECT last FROM taken)
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
    {
      more: `open_queue AS MATERIALIZED (
  SELECT settings FROM :schema.queues WHERE name = ($3::text[])[1] AND NOT paused AND NOT flow
), taken AS MATERIALIZED (
  SELECT moment.place + CASE WHEN EXISTS (SELECT FROM open_queue) THEN $10::integer ELSE 0 END AS last,
         round(date_part('epoch', moment.now) * 1000)::bigint AS now_ms
    FROM moment
), `,
    },
  ),
)

/** Writes plain jobs, and claims the first of them. */
export function writeClaimed(
  db: Database,
  jobs: readonly NewJob[],
  claim: ClaimOnEnqueue,
): Promise<readonly Enqueued[]> {
  return writeOnce(db, jobs, claimedCall(db, jobs, claim), (row) => readClaimed(jobs, row))
}

/** The statement for plain jobs of which the first are claimed, unless they are of several queues. */
export function claimedCall(db: Database, jobs: readonly NewJob[], claim: ClaimOnEnqueue | undefined): Call {
  if (claim === undefined || !isOfOneQueue(jobs, claim.count)) return plainCall(db, jobs)
  return [ENQUEUE_CLAIMED, [...valuesOf(db, jobs), claim.count, claim.leaseMs, claim.worker]]
}

/** Reads the one row of `claimedCall`. */
export function readClaimed(jobs: readonly NewJob[], [, now, claimed, settings]: Row): readonly Enqueued[] {
  const nowMs = Number(now)
  const queueLimits = readQueueLimits(settings ?? null)
  return readPlain(jobs).map((answer, index) => {
    if (index >= Number(claimed ?? 0)) return answer
    return { id: answer.id, created: true, state: 'running', claimed: claimedJob(jobs[index]!, nowMs, queueLimits) }
  })
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
    ...originOf(job),
  }
}
