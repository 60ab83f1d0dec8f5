// enqueue, the long way: times, idempotency keys, parents, ticks. ◄── enqueue.ts

import type { Enqueued, NewJob } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { type TickOrigin, writeOptions } from './options-column.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { unblockChildren } from './unblock.js'

/** A job to write, and the tick that made it if one did. Ticks stand before the untimed backlog. */
export interface NewRow {
  readonly job: NewJob
  readonly schedule: TickOrigin | null
}

const KNOWN_JOBS = statement('known_jobs', 'SELECT id::text FROM :schema.jobs WHERE id = ANY ($1::uuid[])')

const ENQUEUE_FULL = statement(
  'enqueue_full',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
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
   CROSS JOIN moment
   WHERE (fresh.id IN (SELECT id FROM written)) IS TRUE       -- not a join, which the planner would run as one loop in another
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

/** What became of a row: written under its own id, kept away by the holder of its key, or left without a parent. */
type Outcome = { readonly holder: string; readonly state: JobState | null } | { readonly unknownParent: string }

/** Jobs cut into batches, each written by one statement. */
export type Pieces = readonly (readonly NewRow[])[]

/** Writes jobs with times, keys, parents or ticks. */
export async function writeFull(
  db: Database,
  send: Send,
  rows: readonly NewRow[],
  pieces: Pieces,
): Promise<readonly Enqueued[]> {
  const outcomes = new Map<string, Outcome>()
  for (const piece of pieces) await writePiece(db, send, piece, outcomes)
  const written = [...outcomes.values()].filter((outcome) => 'holder' in outcome)
  const blocked = written.filter(({ state }) => state === 'blocked').map(({ holder }) => holder)
  const resolved = blocked.length > 0 ? await unblockChildren(db, send, blocked) : new Map<string, JobState>()
  const open = written.filter(({ state }) => state === null).map(({ holder }) => holder)
  const states = open.length > 0 ? await statesOf(send, open) : new Map<string, JobState>()

  return rows.map(({ job: { id } }): Enqueued => {
    const outcome = outcomes.get(id)!
    if ('unknownParent' in outcome) return { id, unknownParent: outcome.unknownParent }
    const { holder, state } = outcome
    // A key that lasts for a time can outlive its job; only finished ones are pruned.
    const current = resolved.get(holder) ?? state ?? states.get(holder) ?? 'succeeded'
    return { id: holder, created: holder === id, state: current }
  })
}

/** Cuts a batch where a job comes after another of it that has a key: whether that one exists is known once it is written. */
export function cut(rows: readonly NewRow[]): Pieces {
  const pieces: NewRow[][] = []
  const ids = new Set<string>()
  let keyed = new Set<string>()
  for (const row of rows) {
    const { id, idempotencyKey, after } = row.job
    if (ids.has(id)) continue
    ids.add(id)
    if (pieces.length === 0 || (keyed.size > 0 && after.some((parent) => keyed.has(parent)))) {
      pieces.push([])
      keyed = new Set()
    }
    pieces.at(-1)!.push(row)
    if (idempotencyKey !== null) keyed.add(id)
  }
  return pieces
}

async function writePiece(
  db: Database,
  send: Send,
  rows: readonly NewRow[],
  outcomes: Map<string, Outcome>,
): Promise<void> {
  const { first, twins, orphans } = await sortPiece(send, rows, outcomes)
  for (const [id, holder] of await findHolders(db, send, orphans)) outcomes.set(id, holder)
  for (const [id, outcome] of await sendFull(db, send, first)) outcomes.set(id, outcome)
  for (const [id, twin] of twins) outcomes.set(id, outcomes.get(twin)!)
}

/** Rows by what can be said of them before they are written. */
interface SortedPiece {
  /** To be written; of several with one key the first, because one statement cannot settle a key twice. */
  readonly first: readonly NewRow[]
  /** Others with the key of a first one, by its id. */
  readonly twins: ReadonlyMap<string, string>
  /** Rows that come after a job that does not exist, with that one's id. */
  readonly orphans: ReadonlyMap<NewRow, string>
}

async function sortPiece(send: Send, rows: readonly NewRow[], outcomes: Map<string, Outcome>): Promise<SortedPiece> {
  const known = await findKnown(send, rows)
  const firstByKey = new Map<string, string>()
  const first: NewRow[] = []
  const twins = new Map<string, string>()
  const orphans = new Map<NewRow, string>()
  for (const row of rows) {
    const { id, after } = row.job
    const key = keyName(row)
    const twin = key === null ? undefined : firstByKey.get(key)
    const unknownParent = after.find((parent) => !known.has(parent))
    // Sent again after a lost answer: it changes nothing, and leaves its key to others if it has lost it since.
    if (known.has(id)) outcomes.set(id, { holder: id, state: null })
    else if (twin !== undefined) twins.set(id, twin)
    else if (unknownParent !== undefined) orphans.set(row, unknownParent)
    else {
      first.push(row)
      known.add(id)
      if (key !== null) firstByKey.set(key, id)
    }
  }
  return { first, twins, orphans }
}

function keyName({ job }: NewRow): string | null {
  return job.idempotencyKey === null ? null : `${job.queue}\n${job.idempotencyKey.key}`
}

/** Which jobs exist, of those that decide about others: parents, their children, and jobs that share a key. */
async function findKnown(send: Send, rows: readonly NewRow[]): Promise<Set<string>> {
  const shares = new Map<string, number>()
  for (const row of rows) {
    const key = keyName(row)
    if (key !== null) shares.set(key, (shares.get(key) ?? 0) + 1)
  }
  const asked = new Set<string>()
  for (const row of rows) {
    const { id, after } = row.job
    if (after.length > 0 || (shares.get(keyName(row) ?? '') ?? 0) > 1) asked.add(id)
    for (const parent of after) asked.add(parent)
  }
  if (asked.size === 0) return new Set()
  return new Set((await send(KNOWN_JOBS, [arrayOf([...asked])])).map(([id]) => id!))
}

const HOLDERS = statement(
  'key_holders',
  `
SELECT asked.id::text, keys.id::text AS holder
  FROM unnest($2::uuid[], $3::text[], $4::text[]) AS asked (id, queue, key)
  JOIN :schema.keys ON keys.queue = asked.queue AND keys.key = asked.key
 WHERE keys.expires_at IS NULL OR keys.expires_at > coalesce($1::timestamptz, clock_timestamp())`,
)

/** The outcomes of jobs without a parent: whoever holds the key of one has taken its place all the same. */
async function findHolders(
  db: Database,
  send: Send,
  orphans: ReadonlyMap<NewRow, string>,
): Promise<ReadonlyMap<string, Outcome>> {
  const outcomes = new Map<string, Outcome>()
  for (const [{ job }, unknownParent] of orphans) outcomes.set(job.id, { unknownParent })
  const keyed = [...orphans.keys()].filter(({ job }) => job.idempotencyKey !== null).map(({ job }) => job)
  if (keyed.length === 0) return outcomes
  const held = await send(HOLDERS, [
    db.now(),
    arrayOf(keyed.map(({ id }) => id)),
    arrayOf(keyed.map(({ queue }) => queue)),
    arrayOf(keyed.map(({ idempotencyKey }) => idempotencyKey!.key)),
  ])
  for (const [id, holder] of held) outcomes.set(id!, { holder: holder!, state: null })
  return outcomes
}

async function sendFull(
  db: Database,
  send: Send,
  rows: readonly NewRow[],
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
