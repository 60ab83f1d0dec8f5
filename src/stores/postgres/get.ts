// get: everything about one job, from its row in `jobs` and the one table of its state.

import type { StoredError } from '../../core/json.js'
import { resolveLimits } from '../../core/limits.js'
import type { DeadReason, JobState } from '../../core/states.js'
import type { AttemptView, JobSummary, JobView } from '../../core/views.js'
import type { Database, Send } from './database.js'
import { LAST_ERROR } from './filter.js'
import { stepsOf, waitOf } from './kept.js'
import { readOptions, readQueueLimits, readTags } from './options-column.js'
import { type Row, readDate, readJson, statement } from './statement.js'

/** A job's state, as columns of one row. Used for one job here and for a page in list.ts. */
export const STANDING = `
   SELECT finished.ending::text AS state, NULL::timestamptz AS run_at, finished.started_at, finished.finished_at,
          finished.attempt, finished.crashes, finished.worker, NULL::timestamptz AS leased_until, false AS cancel_requested,
          NULL AS reason, NULL::json AS error
     FROM :schema.finished
    WHERE finished.id = jobs.id
    UNION ALL
   SELECT 'running', NULL, running.claimed_at, NULL, running.attempt, running.crashes, running.worker, running.leased_until,
          running.cancel_requested OR EXISTS (SELECT FROM :schema.cancels WHERE cancels.id = running.id), NULL, NULL
     FROM :schema.running
    WHERE running.id = jobs.id
    UNION ALL
   SELECT CASE WHEN scheduled.retrying THEN 'retrying' ELSE 'scheduled' END, scheduled.run_at, NULL, NULL, scheduled.attempt,
          scheduled.crashes, NULL, NULL, false, NULL, NULL
     FROM :schema.scheduled
    WHERE scheduled.id = jobs.id
    UNION ALL
   SELECT 'dead', NULL, dead.started_at, dead.died_at, dead.attempt, dead.crashes, dead.worker, NULL, false, dead.reason,
          dead.error
     FROM :schema.dead
    WHERE dead.id = jobs.id
    UNION ALL
   SELECT 'blocked', blocked.run_at, NULL, NULL, coalesce(blocked.attempt, 0), coalesce(blocked.crashes, 0), NULL, NULL, false, NULL, NULL
     FROM :schema.blocked
    WHERE blocked.id = jobs.id
    UNION ALL
   SELECT 'ready', NULL, NULL, NULL, coalesce(ready.attempt, 0), coalesce(ready.crashes, 0), NULL, NULL, false, NULL, NULL
     FROM :schema.ready
    WHERE ready.queue = jobs.queue AND ready.priority = jobs.priority AND ready.position = jobs.position
      AND ready.id = jobs.id AND NOT ready.moved
    UNION ALL
   SELECT 'ready', NULL, NULL, NULL, coalesce(ready.attempt, 0), coalesce(ready.crashes, 0), NULL, NULL, false, NULL, NULL
     FROM :schema.ready
    WHERE ready.id = jobs.id AND ready.moved
    UNION ALL
   SELECT 'ready', NULL, NULL, NULL, coalesce(held.attempt, 0), coalesce(held.crashes, 0), NULL, NULL, false, NULL, NULL
     FROM :schema.held
    WHERE held.id = jobs.id`

/** The columns of a summary, in the order readSummary reads them. */
export const SUMMARY_COLUMNS: string = `
       jobs.id, jobs.type, jobs.queue, jobs.version, jobs.priority, (extract(epoch FROM jobs.created_at) * 1000)::float8,
       jobs.options, array_to_json(jobs.tags), queues.settings, standing.state,
       (extract(epoch FROM standing.run_at) * 1000)::float8, (extract(epoch FROM standing.started_at) * 1000)::float8,
       (extract(epoch FROM standing.finished_at) * 1000)::float8, standing.attempt, standing.crashes, standing.worker,
       (extract(epoch FROM standing.leased_until) * 1000)::float8, standing.cancel_requested, standing.reason,
       ${LAST_ERROR}`

/** Reads a row of SUMMARY_COLUMNS. */
export function readSummary(row: Row): JobSummary {
  const [id, type, queue, version, priority, createdAt, optionsText, tags, settings, state, ...standing] = row
  const [runAt, startedAt, finishedAt, attempt, crashes, worker, leasedUntil, cancelRequested, reason, error] = standing
  const options = readOptions(optionsText)
  const { schedule, flow, enqueuedBy } = options
  return {
    id: id!,
    type: type!,
    queue: queue!,
    version: Number(version),
    priority: Number(priority),
    createdAt: readDate(createdAt)!,
    maxAttempts: resolveLimits(options.limits, readQueueLimits(settings)).maxAttempts,
    tags: readTags(tags),
    state: state as JobState,
    runAt: readDate(runAt),
    startedAt: readDate(startedAt),
    finishedAt: readDate(finishedAt),
    attempt: Number(attempt),
    crashes: Number(crashes),
    worker: worker ?? null,
    leasedUntil: readDate(leasedUntil),
    cancelRequested: cancelRequested === 't',
    reason: (reason ?? null) as DeadReason | null,
    error: readJson(error) as StoredError | null,
    idempotencyKey: options.key?.key ?? null,
    after: options.after ?? [],
    onParentDead: options.onParentDead ?? 'cancel',
    schedule: schedule === undefined ? null : { name: schedule.name, tick: new Date(schedule.tickMs) },
    ...(enqueuedBy === undefined ? {} : { enqueuedBy }),
    ...(flow === undefined ? {} : { flow }),
  }
}

const getSql = (more: string) => `
SELECT ${more}${SUMMARY_COLUMNS}
  FROM :schema.jobs
  LEFT JOIN :schema.queues ON queues.name = jobs.queue
 CROSS JOIN LATERAL (${STANDING}
 ) AS standing
 WHERE jobs.id = $1::uuid`

const SUMMARY = statement('get_summary', getSql(''))
const GET = statement(
  'get',
  getSql(`jobs.payload, (SELECT finished.result FROM :schema.finished WHERE finished.id = jobs.id),
       (SELECT progress.value FROM :schema.progress WHERE progress.id = jobs.id),`),
)

/** A job without payload and result, for roles that may not see those. */
export async function getSummary(send: Send, id: string): Promise<JobSummary | null> {
  const [row] = await send(SUMMARY, [id])
  return row === undefined ? null : readSummary(row)
}

const ATTEMPTS = statement(
  'attempts',
  `
SELECT attempt, worker, (extract(epoch FROM started_at) * 1000)::float8, (extract(epoch FROM finished_at) * 1000)::float8, error
  FROM :schema.attempts
 WHERE id = $1::uuid
 ORDER BY fence
 LIMIT 1000`,
)

const LOGS = statement(
  'logs',
  'SELECT (extract(epoch FROM at) * 1000)::float8, text FROM :schema.logs WHERE id = $1::uuid ORDER BY line LIMIT 10000',
)

const REQUEUES = statement(
  'requeues',
  `
SELECT (extract(epoch FROM at) * 1000)::float8, actor
  FROM :schema.audit
 WHERE job = $1::uuid
   AND action = 'requeue'
 ORDER BY line
 LIMIT 1000`,
)

export async function get(db: Database, id: string): Promise<JobView | null> {
  const send: Send = (sql, values) => db.send('look', sql, values)
  // A job that moves from one table to the next between two snapshots is in exactly one of them in each.
  const [[row], attempts, logs, requeues, steps, wait] = await Promise.all([
    send(GET, [id]),
    send(ATTEMPTS, [id]),
    send(LOGS, [id]),
    send(REQUEUES, [id]),
    stepsOf(send, id),
    waitOf(send, id),
  ])
  if (row === undefined) return null
  const [payload, result, progress, ...summary] = row
  return {
    ...readSummary(summary),
    payload: readJson(payload),
    result: readJson(result),
    progress: readJson(progress),
    attempts: attempts.map(readAttempt),
    logs: logs.map(([at, text]) => ({ at: readDate(at)!, text: text! })),
    requeues: requeues.map(([at, by], index) => ({ number: index + 1, at: readDate(at)!, by: by! })),
    ...(wait === null ? {} : { wait }),
    ...(steps.length === 0 ? {} : { steps }),
  }
}

function readAttempt([attempt, worker, startedAt, finishedAt, error]: Row): AttemptView {
  return {
    attempt: Number(attempt),
    worker: worker ?? null,
    startedAt: readDate(startedAt),
    finishedAt: readDate(finishedAt)!,
    error: readJson(error) as StoredError,
  }
}
