// enqueue: facts into jobs, a place into ready, scheduled or blocked. ◄── client/group-commit.ts · next: claim.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { type TickOrigin, writeOptions } from './options-column.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { unblockChildren } from './unblock.js'

/** A job to write, and the tick that made it if one did. Ticks stand before the untimed backlog. */
interface Row {
  readonly job: NewJob
  readonly schedule: TickOrigin | null
}

/** Writes jobs in one statement; the answers are in the order of the jobs. */
export async function enqueue(db: Database, send: Send, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
  return write(
    db,
    send,
    jobs.map((job) => ({ job, schedule: null })),
  )
}

/** Writes the jobs of a schedule's ticks. */
export async function enqueueTicks(
  db: Database,
  send: Send,
  ticks: readonly { readonly job: NewJob; readonly name: string; readonly tickMs: number }[],
): Promise<readonly Enqueued[]> {
  return write(
    db,
    send,
    ticks.map(({ job, name, tickMs }) => ({ job, schedule: { name, tickMs } })),
  )
}

async function write(db: Database, send: Send, rows: readonly Row[]): Promise<readonly Enqueued[]> {
  if (rows.length === 0) return []
  return rows.every(isPlain) ? writePlain(db, send, rows) : writeFull(db, send, rows)
}

function isPlain({ job, schedule }: Row): boolean {
  return (
    schedule === null &&
    job.when === null &&
    job.idempotencyKey === null &&
    job.after.length === 0 &&
    job.onParentDead === 'cancel' &&
    job.tags.length === 0 &&
    job.trace === null &&
    Object.keys(job.limits).length === 0
  )
}

const ENQUEUE_PLAIN = statement(
  'enqueue_plain',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         nextval(':schema.positions') * 65536 AS place        -- one number a statement, the batch counts up beneath it
), written AS (
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload)
  SELECT input.id, moment.now, moment.place + input.ordinal, input.priority, input.version, input.queue, input.type, input.payload
    FROM moment,
         unnest($2::uuid[], $3::text[], $4::text[], $5::json[], $6::smallint[], $7::smallint[])
           WITH ORDINALITY AS input (id, queue, type, payload, priority, version, ordinal)
      ON CONFLICT DO NOTHING                                  -- written by an earlier try whose answer was lost
  RETURNING id, created_at, position, priority, queue, type
)
INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
SELECT id, position, created_at, priority, false, queue, type
  FROM written
RETURNING id::text`,
)

async function writePlain(db: Database, send: Send, rows: readonly Row[]): Promise<readonly Enqueued[]> {
  const written = await send(ENQUEUE_PLAIN, [
    db.now(),
    arrayOf(rows.map(({ job }) => job.id)),
    arrayOf(rows.map(({ job }) => job.queue)),
    arrayOf(rows.map(({ job }) => job.type)),
    arrayOf(rows.map(({ job }) => job.payload)),
    arrayOf(rows.map(({ job }) => job.priority)),
    arrayOf(rows.map(({ job }) => job.version)),
  ])
  if (written.length === rows.length) return rows.map(({ job }) => ({ id: job.id, created: true, state: 'ready' }))
  const states = await statesOf(
    send,
    rows.map(({ job }) => job.id),
  )
  return rows.map(({ job }) => ({ id: job.id, created: true, state: states.get(job.id) ?? 'ready' }))
}

const KNOWN_JOBS = statement('known_jobs', 'SELECT id::text FROM :schema.jobs WHERE id = ANY ($1::uuid[])')

const ENQUEUE_FULL = statement(
  'enqueue_full',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         nextval(':schema.positions') * 65536 AS place
), input AS MATERIALIZED (
  SELECT input.*,
         CASE WHEN input.at_ms IS NOT NULL THEN to_timestamp(input.at_ms / 1000)
              WHEN input.delay_ms IS NOT NULL THEN moment.now + input.delay_ms * interval '1 millisecond'
          END AS run_at
    FROM moment,
         unnest($2::uuid[], $3::text[], $4::text[], $5::json[], $6::smallint[], $7::smallint[], $8::float8[], $9::float8[],
                $10::json[], $11::text[], $12::text[], $13::float8[], $14::boolean[], $15::boolean[], $16::boolean[])
           WITH ORDINALITY AS input (id, queue, type, payload, priority, version, at_ms, delay_ms,
                                     options, tags, key, key_ms, blocked, cancel_with_parents, front, ordinal)
), unknown AS MATERIALIZED (
  SELECT input.*
    FROM input
   WHERE input.key IS NULL                                    -- the insert into jobs tells for those without a key
      OR NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = input.id)
), holder AS (
  INSERT INTO :schema.keys (queue, key, id, expires_at)
  SELECT unknown.queue, unknown.key, unknown.id, moment.now + unknown.key_ms * interval '1 millisecond'
    FROM unknown, moment
   WHERE unknown.key IS NOT NULL
   ORDER BY unknown.queue, unknown.key                        -- one order for all, so that two batches cannot deadlock
      ON CONFLICT (queue, key) DO UPDATE                      -- also when nothing changes: it locks and returns the holder
     SET id = CASE WHEN keys.expires_at <= (SELECT now FROM moment) THEN excluded.id ELSE keys.id END,
         expires_at = CASE WHEN keys.expires_at <= (SELECT now FROM moment) THEN excluded.expires_at ELSE keys.expires_at END
  RETURNING queue, key, id
), fresh AS MATERIALIZED (
  SELECT unknown.*
    FROM unknown
    LEFT JOIN holder ON holder.queue = unknown.queue AND holder.key = unknown.key
   WHERE unknown.key IS NULL OR holder.id = unknown.id
), written AS (
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
  SELECT fresh.id, moment.now, moment.place + fresh.ordinal, fresh.priority, fresh.version, fresh.queue, fresh.type,
         fresh.payload, fresh.options, fresh.tags::text[]
    FROM fresh, moment
      ON CONFLICT DO NOTHING
  RETURNING id
), placed AS MATERIALIZED (
  SELECT fresh.*, moment.now, moment.place + fresh.ordinal AS position,
         CASE WHEN fresh.blocked THEN 'blocked' WHEN fresh.run_at > moment.now THEN 'scheduled' ELSE 'ready' END AS state
    FROM fresh
    JOIN written ON written.id = fresh.id
   CROSS JOIN moment
), into_blocked AS (
  INSERT INTO :schema.blocked (id, run_at, priority, cancel_with_parents, queue, type)
  SELECT id, run_at, priority, cancel_with_parents, queue, type
    FROM placed
   WHERE state = 'blocked'
), into_parents AS (
  INSERT INTO :schema.parents (parent, child)
  SELECT link.parent, link.child
    FROM unnest($17::uuid[], $18::uuid[]) AS link (parent, child)
    JOIN placed ON placed.id = link.child AND placed.state = 'blocked'
      ON CONFLICT DO NOTHING
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
  SELECT id, run_at, priority, 0, 0, false, queue, type
    FROM placed
   WHERE state = 'scheduled'
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
  SELECT id, CASE WHEN front THEN position - 4611686018427387904 ELSE position END, now, priority, front, queue, type
    FROM placed
   WHERE state = 'ready'
)
SELECT input.id::text, coalesce(holder.id, input.id)::text, placed.state
  FROM input
  LEFT JOIN holder ON holder.queue = input.queue AND holder.key = input.key
  LEFT JOIN placed ON placed.id = input.id`,
)

async function writeFull(db: Database, send: Send, rows: readonly Row[]): Promise<readonly Enqueued[]> {
  const orphans = await findOrphans(send, rows)
  const { first, twins } = foldTwins(rows.filter(({ job }) => !orphans.has(job.id)))
  const answers = await sendFull(db, send, first)
  const blocked = first.filter(({ job }) => answers.get(job.id)?.state === 'blocked').map(({ job }) => job.id)
  const resolved = blocked.length > 0 ? await unblockChildren(db, send, blocked) : new Map<string, JobState>()
  const open = [...answers.values()].filter(({ state }) => state === null).map(({ holder }) => holder)
  const states = open.length > 0 ? await statesOf(send, open) : new Map<string, JobState>()

  return rows.map(({ job }): Enqueued => {
    const parent = orphans.get(job.id)
    if (parent !== undefined) return { id: job.id, unknownParent: parent }
    const twin = twins.get(job.id)
    const { holder, state } = answers.get(twin ?? job.id)!
    const current = resolved.get(holder) ?? state ?? states.get(holder) ?? 'ready'
    return { id: holder, created: holder === job.id, state: current }
  })
}

/** Jobs that come after one that does not exist, with that one's id. */
async function findOrphans(send: Send, rows: readonly Row[]): Promise<ReadonlyMap<string, string>> {
  const orphans = new Map<string, string>()
  const parents = [...new Set(rows.flatMap(({ job }) => job.after))]
  if (parents.length === 0) return orphans
  const known = new Set((await send(KNOWN_JOBS, [arrayOf(parents)])).map(([id]) => id))
  for (const { job } of rows) {
    const missing = job.after.find((parent) => !known.has(parent))
    if (missing === undefined) known.add(job.id)
    else orphans.set(job.id, missing)
  }
  return orphans
}

/** Of jobs in one batch that share a key only the first is sent; one statement cannot settle a key twice. */
function foldTwins(rows: readonly Row[]): { first: readonly Row[]; twins: ReadonlyMap<string, string> } {
  const firstByKey = new Map<string, string>()
  const twins = new Map<string, string>()
  const first = rows.filter(({ job }) => {
    if (job.idempotencyKey === null) return true
    const name = `${job.queue}\n${job.idempotencyKey.key}`
    const holder = firstByKey.get(name)
    if (holder === undefined) firstByKey.set(name, job.id)
    else twins.set(job.id, holder)
    return holder === undefined
  })
  return { first, twins }
}

async function sendFull(
  db: Database,
  send: Send,
  rows: readonly Row[],
): Promise<Map<string, { holder: string; state: JobState | null }>> {
  if (rows.length === 0) return new Map()
  const links = rows.flatMap(({ job }) => job.after.map((parent) => ({ parent, child: job.id })))
  const answers = await send(ENQUEUE_FULL, [
    db.now(),
    arrayOf(rows.map(({ job }) => job.id)),
    arrayOf(rows.map(({ job }) => job.queue)),
    arrayOf(rows.map(({ job }) => job.type)),
    arrayOf(rows.map(({ job }) => job.payload)),
    arrayOf(rows.map(({ job }) => job.priority)),
    arrayOf(rows.map(({ job }) => job.version)),
    arrayOf(rows.map(({ job }) => (job.when !== null && 'runAtMs' in job.when ? job.when.runAtMs : null))),
    arrayOf(rows.map(({ job }) => (job.when !== null && 'delayMs' in job.when ? job.when.delayMs : null))),
    arrayOf(rows.map(({ job, schedule }) => writeOptions(job, schedule))),
    arrayOf(rows.map(({ job }) => (job.tags.length === 0 ? null : arrayOf(job.tags)))),
    arrayOf(rows.map(({ job }) => job.idempotencyKey?.key ?? null)),
    arrayOf(rows.map(({ job }) => job.idempotencyKey?.ttlMs ?? null)),
    arrayOf(rows.map(({ job }) => job.after.length > 0)),
    arrayOf(rows.map(({ job }) => job.onParentDead === 'cancel')),
    arrayOf(rows.map(({ schedule }) => schedule !== null)),
    arrayOf(links.map(({ parent }) => parent)),
    arrayOf(links.map(({ child }) => child)),
  ])
  return new Map(answers.map(([id, holder, state]) => [id!, { holder: holder!, state: state as JobState | null }]))
}
