// enqueue, the general path: times, idempotency keys, parents, ticks. ◄── enqueue.ts

import { isHoldfastError } from '../../core/errors.js'
import { keyName } from '../../core/held-keys.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { IS_OF_JOB, KEY_JOB } from './key-rows.js'
import { writeOptions } from './options-column.js'
import { quietMs, replaceHeld } from './replace.js'
import { arrayOf, DIVISION_BY_ZERO, plainArrayOf, type Row, type Statement, statement } from './statement.js'
import { statesOf } from './states.js'
import { makeTracks, WAYS, waysOf } from './tracks.js'
import { unblock } from './unblock.js'
import { KEY_TRIES_MAX, keyUnsettled, type NewRow, type Outcome, type WriteScope } from './write-scope.js'

/** The answer for a job whose track is not there yet. Nothing was written for it. */
const TRACKLESS = 'trackless'

const KNOWN_JOBS = statement('known_jobs', 'SELECT id::text FROM :schema.jobs WHERE id = ANY ($1::uuid[])')

// Those that go first have negative ordinals: the newest has the lowest position, behind the front lane, which is 2^62 lower.
const POSITION = 'CASE WHEN fresh.ordinal < 0 THEN fresh.ordinal - moment.place ELSE moment.place + fresh.ordinal END'

const ENQUEUE_FULL = statement(
  'enqueue_full',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         coalesce($21::bigint, pg_catalog.nextval(':schema.positions') * 65536) AS place,    -- the one of the first try, if there was one
         CASE WHEN $22::text IS NOT NULL THEN pg_catalog.set_config('lock_timeout', $22, true) END AS patience
), ${WAYS('$23', '$24')}, input AS MATERIALIZED (
  SELECT input.*, CASE WHEN input.way IS NULL THEN 0 ELSE ways.track END AS track, coalesce(ways.is_ordered, false) AS is_ordered,
         CASE WHEN input.at_ms IS NOT NULL THEN to_timestamp(input.at_ms / 1000)
              WHEN input.delay_ms IS NOT NULL THEN moment.now + input.delay_ms * interval '1 millisecond'
          END AS run_at
    FROM moment,
         unnest($2::uuid[], $3::text[], $4::text[], $5::json[], $6::smallint[], $7::smallint[], $8::float8[], $9::float8[],
                $10::json[], $11::text[], $12::text[], $13::float8[], $14::boolean[], $15::boolean[], $16::boolean[], $20::integer[],
                $25::integer[], $26::text[])
           AS input (id, queue, type, payload, priority, version, at_ms, delay_ms,
                                     options, tags, key, key_ms, blocked, cancel_with_parents, front, ordinal, way, group_name)
    LEFT JOIN ways ON ways.number = input.way
), unknown AS MATERIALIZED (
  SELECT input.*
    FROM input
   WHERE input.key IS NULL                                    -- the insert into jobs tells for those without a key
      OR NOT EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = input.id)
), held AS MATERIALIZED (                                     -- a key that is taken is read, never locked: its job may be settled
  SELECT unknown.id AS asked, keys.id
    FROM unknown
   CROSS JOIN moment
   CROSS JOIN LATERAL (
     SELECT ${KEY_JOB} AS id
       FROM :schema.keys
      WHERE keys.queue = unknown.queue AND keys.key = unknown.key
        AND (keys.expires_at > moment.now OR ${IS_OF_JOB})
     OFFSET 0
   ) AS keys
), taken AS (
  INSERT INTO :schema.keys (queue, key, id, expires_at)
  SELECT unknown.queue, unknown.key, unknown.id, moment.now + unknown.key_ms * interval '1 millisecond'
    FROM unknown, moment
   WHERE unknown.key IS NOT NULL AND unknown.track IS NOT NULL
     AND (unknown.id NOT IN (SELECT asked FROM held)) IS TRUE
   ORDER BY unknown.queue, unknown.key                        -- one order for all, so that two batches cannot deadlock
      ON CONFLICT (queue, key) DO NOTHING                     -- taken since the statement began, or expired: asked again
  RETURNING id
), fresh AS MATERIALIZED (
  SELECT unknown.*
    FROM unknown
   WHERE unknown.track IS NOT NULL
     AND (unknown.key IS NULL OR (unknown.id IN (SELECT id FROM taken)) IS TRUE)
), written AS (
  INSERT INTO :schema.jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
  SELECT fresh.id, moment.now, ${POSITION}, fresh.priority, fresh.version, fresh.queue, fresh.type,
         fresh.payload, fresh.options, fresh.tags::text[]
    FROM fresh, moment
      ON CONFLICT DO NOTHING
  RETURNING id
), placed AS MATERIALIZED (
  SELECT fresh.*, moment.now, ${POSITION} AS position,
         CASE WHEN fresh.blocked THEN 'blocked' WHEN fresh.run_at > moment.now THEN 'scheduled' ELSE 'ready' END AS state
    FROM fresh
   CROSS JOIN moment
   WHERE (fresh.id IN (SELECT id FROM written)) IS TRUE       -- not a join, which the planner would run as one loop in another
), into_blocked AS (
  INSERT INTO :schema.blocked (id, run_at, priority, cancel_with_parents, queue, type, track, group_name)
  SELECT id, run_at, priority, cancel_with_parents, queue, type, track, group_name
    FROM placed
   WHERE state = 'blocked'
), announced AS (
  INSERT INTO :schema.link_checks (job, look_at)             -- alone, the first look comes right behind; it is announced for the second
  SELECT id, CASE WHEN $19::boolean THEN coalesce($1, clock_timestamp()) + interval '15 seconds' ELSE '-infinity' END
    FROM placed
   WHERE state = 'blocked'
), into_parents AS (
  INSERT INTO :schema.parents (parent, child)
  SELECT link.parent, link.child
    FROM unnest($17::uuid[], $18::uuid[]) AS link (parent, child)
    JOIN placed ON placed.id = link.child AND placed.state = 'blocked'
      ON CONFLICT DO NOTHING
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type, track, group_name)
  SELECT id, run_at, priority, 0, 0, false, queue, type, track, group_name
    FROM placed
   WHERE state = 'scheduled'
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, priority, moved, queue, type)
  SELECT id, CASE WHEN front THEN position - 4611686018427387904 ELSE position END, now, priority, front, queue, type
    FROM placed
   WHERE state = 'ready' AND track = 0
), into_held AS (
  INSERT INTO :schema.held (id, position, since, track, priority, queue, group_name, type)
  SELECT id, CASE WHEN front AND NOT in_order THEN position - 4611686018427387904 ELSE position END, now, track,
         CASE WHEN in_order THEN 0 ELSE priority END, queue, group_name, type
    FROM (SELECT placed.*, placed.is_ordered AND placed.group_name <> '' AS in_order FROM placed) AS placed
   WHERE state = 'ready' AND track > 0
), arrived AS (
  INSERT INTO :schema.arrivals (turn, track, group_name)
  SELECT DISTINCT moment.place, placed.track, placed.group_name
    FROM placed, moment
   WHERE placed.state = 'ready' AND placed.track > 0
), answer AS MATERIALIZED (
  SELECT input.id,
         CASE WHEN input.key IS NULL OR (input.id NOT IN (SELECT id FROM unknown)) IS TRUE
                OR (input.id IN (SELECT id FROM taken)) IS TRUE THEN input.id
              WHEN held.id IS NULL AND input.track IS NULL THEN input.id
              ELSE held.id
          END AS holder,
         CASE WHEN input.track IS NULL AND held.id IS NULL THEN 'trackless' ELSE placed.state END AS state
    FROM input
    LEFT JOIN held ON held.asked = input.id
    LEFT JOIN placed ON placed.id = input.id
)
SELECT id::text, holder::text, state, (SELECT place FROM moment)::text
  FROM answer
 -- Outside of a transaction all are written or none: the division fails the statement when a key is open.
 WHERE 1 / CASE WHEN $19::boolean AND EXISTS (SELECT FROM answer WHERE holder IS NULL) THEN 0 ELSE 1 END = 1`,
)

// Run apart from a caller's transaction, so that its locks last for a moment. Expired keys are of no use to anybody.
const FREE_EXPIRED = statement(
  'free_expired_keys',
  'SELECT :schema.free_expired_keys($1::timestamptz, $2::text[], $3::text[], $4::uuid[])::text',
)

/** Jobs cut into batches, each written by one statement. */
export type Pieces = readonly (readonly NewRow[])[]

/** Writes jobs with times, keys, parents or ticks. */
export async function writeFull(
  scope: WriteScope,
  rows: readonly NewRow[],
  pieces: Pieces,
): Promise<readonly Enqueued[]> {
  const { db, send } = scope
  const outcomes = new Map<string, Outcome>()
  for (const piece of pieces) {
    const placed = piece.map((row, index) => ({ ...row, ordinal: index + 1 }))
    await writePiece(scope, placed, null, outcomes)
  }
  const written = [...outcomes.values()].filter((outcome) => 'holder' in outcome)
  const blocked = written
    .filter(({ state, isReplaced }) => state === 'blocked' && isReplaced !== true)
    .map(({ holder }) => holder)
  const looked = await unblock(db, send, blocked, scope.isAlone ? [] : null, () => {})
  const isMoved = ({ holder, state, isReplaced }: Extract<Outcome, { holder: string }>) =>
    state === null || (state === 'blocked' && isReplaced !== true && !looked.has(holder))
  const open = written.filter(isMoved)
  const states =
    open.length > 0
      ? await statesOf(
          send,
          open.map(({ holder }) => holder),
        )
      : new Map<string, JobState>()

  return rows.map(({ job: { id } }): Enqueued => {
    const outcome = outcomes.get(id)!
    if ('unknownParent' in outcome) return { id, unknownParent: outcome.unknownParent }
    if ('refused' in outcome) return { id, refused: outcome.refused }
    const { holder, state, isReplaced } = outcome
    // A key that lasts for a time can outlive its job; only finished ones are pruned.
    const current = looked.get(holder) ?? states.get(holder) ?? state ?? 'succeeded'
    return { id: holder, created: holder === id, ...(isReplaced === true ? { replaced: true } : {}), state: current }
  })
}

/** The statement for distinct jobs without keys and parents, and its values. */
export function timedCall(db: Database, jobs: readonly NewJob[]): [Statement, unknown[]] {
  const rows = jobs.map((job, index) => ({ job, schedule: null, ordinal: index + 1 }))
  return [ENQUEUE_FULL, fullValues({ db, isAlone: false, patience: null }, rows, null)]
}

/** Reads the rows of `timedCall`; null when an earlier try had written one of the jobs. */
export function readTimed(rows: readonly Row[]): readonly Enqueued[] | null {
  if (rows.some(([, , state]) => state === null || state === TRACKLESS)) return null
  return rows.map(([id, , state]) => ({ id: id!, created: true, state: state as JobState }))
}

/** Cuts a batch where a job comes after another of it that has a key, or that flow control may refuse: whether that one exists is known
 *  once it is written. */
export function cut(rows: readonly NewRow[]): Pieces {
  const pieces: NewRow[][] = []
  const ids = new Set<string>()
  let keyed = new Set<string>()
  for (const row of rows) {
    const { id, idempotencyKey, after, flow } = row.job
    if (ids.has(id)) continue
    ids.add(id)
    if (pieces.length === 0 || (keyed.size > 0 && after.some((parent) => keyed.has(parent)))) {
      pieces.push([])
      keyed = new Set()
    }
    pieces.at(-1)!.push(row)
    if (idempotencyKey !== null || flow !== undefined) keyed.add(id)
  }
  return pieces
}

async function writePiece(
  scope: WriteScope,
  rows: readonly PlacedRow[],
  place: string | null,
  outcomes: Map<string, Outcome>,
): Promise<void> {
  const { first, twins, orphans } = await sortPiece(scope.send, rows, outcomes)
  for (const [id, holder] of await findHolders(scope.db, scope.send, orphans)) outcomes.set(id, holder)
  const sent = await sendFull(scope, first, place)
  for (const [id, outcome] of sent.written) outcomes.set(id, outcome)
  // A job that is refused leaves its key to the next one of the batch.
  const isRefused = (row: NewRow) => 'refused' in outcomes.get(row.job.id)!
  const [left, same] = partition([...twins], ([, of]) => isRefused(of))
  for (const [row, of] of same) outcomes.set(row.job.id, outcomes.get(of.job.id)!)
  const keyed = first.filter((row) => row.job.idempotencyKey !== null && !isRefused(row))
  await replaceHeld(
    scope,
    keyed,
    new Map(same),
    outcomes,
    async (row) => (await sendFull(scope, [{ ...row, ordinal: 1 }], null)).written.get(row.job.id)!,
  )
  if (left.length > 0)
    await writePiece(
      scope,
      left.map(([row]) => row),
      sent.place,
      outcomes,
    )
}

function partition<T>(list: readonly T[], isFirst: (one: T) => boolean): [T[], T[]] {
  return [list.filter(isFirst), list.filter((one) => !isFirst(one))]
}

/** Rows by what can be said of them before they are written. */
interface SortedPiece {
  /** To be written; of several with one key the first, because one statement cannot settle a key twice. */
  readonly first: readonly PlacedRow[]
  /** Others with the key of a first one. */
  readonly twins: ReadonlyMap<PlacedRow, PlacedRow>
  /** Rows that come after a job that does not exist, with that one's id. */
  readonly orphans: ReadonlyMap<NewRow, string>
}

async function sortPiece(send: Send, rows: readonly PlacedRow[], outcomes: Map<string, Outcome>): Promise<SortedPiece> {
  const known = await findKnown(send, rows)
  const firstByKey = new Map<string, PlacedRow>()
  const first: PlacedRow[] = []
  const twins = new Map<PlacedRow, PlacedRow>()
  const orphans = new Map<NewRow, string>()
  for (const row of rows) {
    const { id, after } = row.job
    const key = keyName(row.job)
    const twin = key === null ? undefined : firstByKey.get(key)
    const unknownParent = after.find((parent) => !known.has(parent))
    // Sent again after a lost answer: it changes nothing, and leaves its key to others if it has lost it since.
    if (known.has(id)) outcomes.set(id, { holder: id, state: null })
    else if (twin !== undefined) twins.set(row, twin)
    else if (unknownParent !== undefined) orphans.set(row, unknownParent)
    else {
      first.push(row)
      known.add(id)
      if (key !== null) firstByKey.set(key, row)
    }
  }
  return { first, twins, orphans }
}

/** Which of the referenced jobs exist: parents, their children, and jobs that share a key. */
async function findKnown(send: Send, rows: readonly NewRow[]): Promise<Set<string>> {
  const shares = new Map<string, number>()
  for (const row of rows) {
    const key = keyName(row.job)
    if (key !== null) shares.set(key, (shares.get(key) ?? 0) + 1)
  }
  const asked = new Set<string>()
  for (const row of rows) {
    const { id, after } = row.job
    if (after.length > 0 || (shares.get(keyName(row.job) ?? '') ?? 0) > 1) asked.add(id)
    for (const parent of after) asked.add(parent)
  }
  if (asked.size === 0) return new Set()
  return new Set((await send(KNOWN_JOBS, [arrayOf([...asked])])).map(([id]) => id!))
}

const HOLDERS = statement(
  'key_holders',
  `
SELECT asked.id::text, (${KEY_JOB})::text AS holder
  FROM unnest($2::uuid[], $3::text[], $4::text[]) AS asked (id, queue, key)
  JOIN :schema.keys ON keys.queue = asked.queue AND keys.key = asked.key
 WHERE keys.expires_at > coalesce($1::timestamptz, clock_timestamp()) OR ${IS_OF_JOB}`,
)

/** The outcomes of jobs without a parent. If another job holds the key of one, the answer is that job all the same. */
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

type Written = Map<string, Exclude<Outcome, { readonly unknownParent: string }>>

/** Writes rows until the key of each is either taken or held by a job that can be named. Answers the place of their batch, too. */
async function sendFull(
  scope: WriteScope,
  rows: readonly PlacedRow[],
  given: string | null,
): Promise<{ readonly written: Written; readonly place: string | null }> {
  const written: Written = new Map()
  let [open, place] = [rows, given]
  for (let tries = 0; open.length > 0; tries++) {
    if (tries === KEY_TRIES_MAX) throw keyUnsettled(open)
    const trackless = new Set<string>()
    for (const [id, holder, state, drawn] of await sendOnce(scope, open, place)) {
      if (state === TRACKLESS) trackless.add(id!)
      else if (holder !== null) written.set(id!, { holder: holder!, state: state as JobState | null })
      place = drawn!
    }
    if (trackless.size > 0)
      await refuseOrTrack(
        scope,
        open.filter(({ job }) => trackless.has(job.id)),
        written,
      )
    open = open.filter(({ job }) => !written.has(job.id))
    if (open.some(({ job }) => !trackless.has(job.id))) await freeExpired(scope, open, tries)
  }
  return { written, place }
}

/** Makes the tracks of these jobs, or says why there is none. A job that was written by an earlier try is not refused. */
async function refuseOrTrack({ db, send }: WriteScope, rows: readonly NewRow[], written: Written): Promise<void> {
  const refusals = await makeTracks(
    db,
    rows.map(({ job }) => job),
  )
  if (refusals.size === 0) return
  const known = new Set((await send(KNOWN_JOBS, [arrayOf([...refusals.keys()])])).map(([id]) => id!))
  for (const [id, refused] of refusals) written.set(id, known.has(id) ? { holder: id, state: null } : { refused })
}

/** A row with its place in the batch, which it keeps when it is sent again. */
interface PlacedRow extends NewRow {
  readonly ordinal: number
}

async function sendOnce(scope: WriteScope, rows: readonly PlacedRow[], place: string | null): ReturnType<Send> {
  const { send, isAlone } = scope
  try {
    return await send(ENQUEUE_FULL, fullValues(scope, rows, place))
  } catch (error) {
    if (isAlone && isHoldfastError(error) && error.details.sqlState === DIVISION_BY_ZERO) return []
    throw error
  }
}

async function freeExpired({ db, send, isAlone }: WriteScope, rows: readonly NewRow[], tries: number): Promise<void> {
  const keyed = rows.filter(({ job }) => job.idempotencyKey !== null).map(({ job }) => job)
  const values = [
    db.now(),
    arrayOf(keyed.map(({ queue }) => queue)),
    arrayOf(keyed.map(({ idempotencyKey }) => idempotencyKey!.key)),
    plainArrayOf(keyed.map(({ id }) => id)),
  ]
  // Not on the connection for keys, which may be inside the very transaction that waits for this.
  await db.send('held', FREE_EXPIRED, values)
  // What is left was written by this very transaction, and only it can see that.
  if (!isAlone && tries > 0) await send(FREE_EXPIRED, values)
}

function fullValues(
  { db, isAlone, patience }: Omit<WriteScope, 'send'>,
  rows: readonly PlacedRow[],
  place: string | null,
): unknown[] {
  const ways = waysOf(rows.map(({ job }) => job))
  const links = rows.flatMap(({ job }) => job.after.map((parent) => ({ parent, child: job.id })))
  return [
    db.now(),
    arrayOf(rows.map(({ job }) => job.id)),
    arrayOf(rows.map(({ job }) => job.queue)),
    arrayOf(rows.map(({ job }) => job.type)),
    arrayOf(rows.map(({ job }) => job.payload)),
    arrayOf(rows.map(({ job }) => job.priority)),
    arrayOf(rows.map(({ job }) => job.version)),
    arrayOf(
      rows.map(({ job }) =>
        job.when !== null && 'runAtMs' in job.when && quietMs(job) === null ? job.when.runAtMs : null,
      ),
    ),
    arrayOf(
      rows.map(({ job }) => quietMs(job) ?? (job.when !== null && 'delayMs' in job.when ? job.when.delayMs : null)),
    ),
    arrayOf(rows.map(({ job, schedule }) => writeOptions(job, schedule))),
    arrayOf(rows.map(({ job }) => (job.tags.length === 0 ? null : arrayOf(job.tags)))),
    arrayOf(rows.map(({ job }) => job.idempotencyKey?.key ?? null)),
    arrayOf(rows.map(({ job }) => job.idempotencyKey?.ttlMs ?? null)),
    arrayOf(rows.map(({ job }) => job.after.length > 0)),
    arrayOf(rows.map(({ job }) => job.onParentDead === 'cancel')),
    arrayOf(rows.map(({ schedule }) => schedule !== null)),
    arrayOf(links.map(({ parent }) => parent)),
    arrayOf(links.map(({ child }) => child)),
    isAlone,
    plainArrayOf(
      rows.map(({ job, schedule, ordinal }) => (job.lifo === true && schedule === null ? -ordinal : ordinal)),
    ),
    place,
    patience,
    arrayOf(ways.sets.map(({ queue }) => queue)),
    arrayOf(ways.sets.map(({ limits }) => arrayOf(limits))),
    arrayOf(rows.map(({ job }) => ways.numberOf(job))),
    arrayOf(rows.map(({ job }) => job.flow?.group ?? '')),
  ]
}
