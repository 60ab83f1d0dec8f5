// Rows of jobs: written in the caller's transaction, and looked at while the store does not have the job. ◄── store.ts · next: dispatch.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { Queryable } from '../../core/job-store.js'
import { resolveLimits } from '../../core/limits.js'
import type { OutboxView } from '../../core/outbox.js'
import type { JobState } from '../../core/states.js'
import type { JobView } from '../../core/views.js'
import type { Database } from '../postgres/database.js'
import { arrayOf, plainArrayOf, type Row, readDate, statement } from '../postgres/statement.js'

// An id that is there is the same job: the call was repeated.
const WRITE = statement(
  'outbox_write',
  `
INSERT INTO :schema.outbox (id, part, job)
SELECT new.id, new.part, new.job
  FROM unnest($1::uuid[], $2::integer[], $3::text[]) WITH ORDINALITY AS new (id, part, job, place)
 ORDER BY new.place
    ON CONFLICT (id) DO NOTHING`,
)

/** Which part of the store a job is of. */
export type PartOf = (job: Pick<NewJob, 'queue' | 'id'>) => number

/** Writes jobs in the transaction of a caller. */
export async function writeRows(
  db: Database,
  tx: Queryable,
  jobs: readonly NewJob[],
  partOf: PartOf,
): Promise<readonly Enqueued[]> {
  const ids = plainArrayOf(jobs.map(({ id }) => id))
  const parts = plainArrayOf(jobs.map(partOf))
  await db.through(tx)(WRITE, [ids, parts, arrayOf(jobs.map((job) => JSON.stringify(job)))])
  return jobs.map((job) => ({ id: job.id, created: true, state: stateToBe(job) }))
}

/** The state that the job will have when the store gets it, as far as can be known. */
function stateToBe({ after, when }: Pick<NewJob, 'after' | 'when'>): JobState {
  if (after.length > 0) return 'blocked'
  return when === null ? 'ready' : 'scheduled'
}

const FIND = statement(
  'outbox_find',
  `
SELECT outbox.id::text, outbox.job, (extract(epoch FROM outbox.created_at) * 1000)::bigint::text,
       coalesce(outbox.outcome, 'waiting'), outbox.holder::text, outbox.why
  FROM :schema.outbox
 WHERE outbox.id = ANY ($1::uuid[])`,
)

/** A job that is in the outbox alone. */
interface FoundRow {
  readonly job: NewJob
  readonly createdAt: Date
  readonly outbox: OutboxView
}

/** What the outbox has of jobs that the store does not know. */
export async function findRows(db: Database, ids: readonly string[]): Promise<readonly FoundRow[]> {
  return (await db.send('look', FIND, [plainArrayOf(ids)])).map(readRow)
}

function readRow([, job, created, outcome, holder, why]: Row): FoundRow {
  const createdAt = readDate(created)!
  // Rows go before the store forgets their jobs: one that it does not know it has lost.
  const isLost = outcome === 'sent'
  const outbox: OutboxView = {
    outcome: isLost ? 'waiting' : outcome === 'replaced' ? 'deduplicated' : (outcome as OutboxView['outcome']),
    since: createdAt,
    why: isLost ? 'Redis has lost it, and it is sent again' : (why ?? null),
    holder: holder ?? null,
  }
  return { job: JSON.parse(job!) as NewJob, createdAt, outbox }
}

/** The job as people see it. One that will never be sent is cancelled. */
export function viewOfRow({ job, createdAt, outbox }: FoundRow): JobView {
  const { when } = job
  const runAtMs = when === null ? null : 'runAtMs' in when ? when.runAtMs : createdAt.getTime() + when.delayMs
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    state: outbox.outcome === 'waiting' ? stateToBe(job) : 'cancelled',
    payload: JSON.parse(job.payload),
    version: job.version,
    priority: job.priority,
    attempt: 0,
    crashes: 0,
    maxAttempts: resolveLimits(job.limits).maxAttempts,
    runAt: runAtMs === null ? null : new Date(runAtMs),
    createdAt,
    startedAt: null,
    finishedAt: null,
    result: null,
    reason: null,
    error: null,
    attempts: [],
    worker: null,
    leasedUntil: null,
    cancelRequested: false,
    progress: null,
    logs: [],
    tags: job.tags,
    idempotencyKey: job.idempotencyKey?.key ?? null,
    after: job.after,
    onParentDead: job.onParentDead,
    schedule: null,
    ...(job.enqueuedBy === undefined ? {} : { enqueuedBy: job.enqueuedBy }),
    ...(job.flow === undefined ? {} : { flow: job.flow }),
    requeues: [],
    outbox,
  }
}

// A row that is being sent is locked: this waits for it, and leaves it as it is.
const CANCEL = statement(
  'outbox_cancel',
  `
UPDATE :schema.outbox
   SET outcome = 'cancelled',
       sent_at = clock_timestamp(),
       why     = 'cancelled by ' || $2
 WHERE id = ANY ($1::uuid[])
   AND sent_at IS NULL
RETURNING id::text`,
)

/** Cancels those of the jobs that wait here, and answers which. */
export async function cancelRows(db: Database, ids: readonly string[], by: string): Promise<ReadonlySet<string>> {
  const rows = await db.send('operate', CANCEL, [plainArrayOf(ids), by])
  return new Set(rows.map(([id]) => id!))
}
