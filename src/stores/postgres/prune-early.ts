// prune, for queues that keep finished jobs for a shorter time than others: their jobs go before their day, one by one. For each such
// retention a walk goes through the jobs in the order of their ids, just behind those that are old enough, a bounded number in a call.
// No index tells the queue of a finished job, and none is made: each settlement would pay for it. Where all queues have one
// retention there is no walk. ◄── prune.ts

import type { Database, Send } from './database.js'
import { arrayOf, statement } from './statement.js'

/** Jobs that a walk reads in one call, and jobs passed before that it looks at again. */
const JOBS_MAX = 5_000
const LATER_MAX = 1_000
/** Walks of one call: retentions that differ. */
const WALKS_MAX = 20
const FIRST = '00000000-0000-0000-0000-000000000000'

const OWN = statement(
  'own_retentions',
  `
SELECT queues.name, queues.settings->>'retentionMs'
  FROM :schema.queues
 WHERE queues.settings->>'retentionMs' IS NOT NULL
 ORDER BY queues.name`,
)

// A walk whose queues changed begins anew. Only one process has it at a time.
const BEGIN = statement(
  'begin_early_walk',
  `
WITH made AS (
  INSERT INTO :schema.early_walks (walk, names) VALUES ($1, $2::text[])
      ON CONFLICT ON CONSTRAINT early_walks_one_for_each_name DO NOTHING
)
SELECT passed::text, (names = $2)::text FROM :schema.early_walks WHERE walk = $1 FOR UPDATE SKIP LOCKED`,
)

const AGAIN = statement('early_walk_again', 'UPDATE :schema.early_walks SET names = $2::text[] WHERE walk = $1')

/** The smallest id of a time. */
const idAt = (
  time: string,
): string => `(overlay(lpad(to_hex(greatest(0, extract(epoch FROM ${time}) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0)
          || '-0000-0000-000000000000')::uuid`

// $4: queues; $5: whether these are meant, or all others. An id may be ahead of the server's time by a little: those of one more minute are
// looked at, and not passed.
const NEXT = statement(
  'early_next',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) - $2::float8 * interval '1 millisecond' AS finished_before
), bound AS MATERIALIZED (                                    -- younger jobs cannot have finished so long ago
  SELECT ${idAt('finished_before')} AS id, ${idAt("finished_before + interval '1 minute'")} AS last
    FROM moment
)
SELECT jobs.id::text, ((jobs.queue = ANY ($4::text[])) = $5::boolean)::text, (jobs.id < (SELECT bound.id FROM bound))::text
  FROM :schema.jobs
 WHERE jobs.id > $3::uuid AND jobs.id < (SELECT bound.last FROM bound)
 ORDER BY jobs.id
 LIMIT $6`,
)

// Those of the jobs that are to go. What the day takes with it is left to the day.
const OVER = statement(
  'early_over',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), horizon AS MATERIALIZED (
  SELECT moment.now - $2::float8 * interval '1 millisecond' AS own, moment.now - $3::float8 * interval '1 millisecond' AS longest FROM moment
)
SELECT asked.id::text
  FROM unnest($4::uuid[]) AS asked (id)
 CROSS JOIN horizon
 CROSS JOIN LATERAL (
   SELECT finished.finished_at FROM :schema.finished WHERE finished.id = asked.id OFFSET 0
 ) AS ended
 WHERE ended.finished_at < horizon.own
   AND NOT (ended.finished_at < horizon.longest
            AND asked.id < :schema.day_floor(((horizon.longest - interval '1 microsecond') AT TIME ZONE 'UTC')::date))`,
)

const REMOVE = statement(
  'early_remove',
  `
WITH gone AS (
  DELETE FROM :schema.finished WHERE finished.id = ANY ($1::uuid[])
), attempts_gone AS (
  DELETE FROM :schema.attempts WHERE attempts.id = ANY ($1)
), logs_gone AS (
  DELETE FROM :schema.logs WHERE logs.id = ANY ($1)
), progress_gone AS (
  DELETE FROM :schema.progress WHERE progress.id = ANY ($1)
)
DELETE FROM :schema.jobs WHERE jobs.id = ANY ($1)`,
)

const MOVE_ON = statement(
  'early_move_on',
  `
WITH later AS (
  INSERT INTO :schema.early_later (walk, id) SELECT $1, unnest($3::uuid[]) ON CONFLICT DO NOTHING
)
UPDATE :schema.early_walks SET passed = $2::uuid WHERE walk = $1`,
)

const LATER = statement(
  'early_later',
  'SELECT id::text, EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = later.id)::text FROM :schema.early_later AS later WHERE walk = $1 AND id > $2::uuid ORDER BY id LIMIT $3',
)

const LATER_GONE = statement(
  'early_later_gone',
  'DELETE FROM :schema.early_later WHERE walk = $1 AND id = ANY ($2::uuid[])',
)

// Of retentions that no queue has any more.
const FORGET = statement(
  'early_forget',
  `
WITH walks_gone AS (
  DELETE FROM :schema.early_walks WHERE walk <> ALL ($1::text[])
)
DELETE FROM :schema.early_later
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM :schema.early_later WHERE walk <> ALL ($1) LIMIT ${JOBS_MAX}))`,
)

interface Walk {
  readonly name: string
  readonly retentionMs: number
  /** The queues it is about, or with `areMeant` false all others. */
  readonly queues: readonly string[]
  readonly areMeant: boolean
}

/** Where the next look at jobs that were passed begins, by walk. */
export type EarlyState = Map<string, string>

/** Removes jobs whose own retention is over before that of their day. */
export async function pruneEarly(
  db: Database,
  state: EarlyState,
  retentionMs: number,
): Promise<{ readonly early: number; readonly isDone: boolean }> {
  const own = (await db.send('retention', OWN, [])).map(([name, ms]) => [name!, Number(ms)] as const)
  const longest = own.reduce((most, [, ms]) => Math.max(most, ms), retentionMs)
  const walks = walksOf(own, retentionMs).filter((walk) => walk.retentionMs < longest)
  await db.send('retention', FORGET, [arrayOf(walks.map(({ name }) => name))])
  let early = 0
  let isDone = walks.length <= WALKS_MAX
  for (const walk of walks.slice(0, WALKS_MAX)) {
    const step = await db.transaction('retention', (send) => stepWalk(db, send, state, walk, longest))
    early += step.early
    isDone &&= step.isDone
  }
  return { early, isDone }
}

/** A walk for each retention, that of queues without their own apart. The shortest first. */
function walksOf(own: readonly (readonly [string, number])[], usualMs: number): readonly Walk[] {
  if (own.length === 0) return []
  const byMs = new Map<number, string[]>()
  for (const [name, ms] of own) byMs.set(ms, [...(byMs.get(ms) ?? []), name])
  const walks = [...byMs].map(([ms, queues]) => ({ name: String(ms), retentionMs: ms, queues, areMeant: true }))
  const usual = { name: `${usualMs} usual`, retentionMs: usualMs, queues: own.map(([name]) => name), areMeant: false }
  return [...walks, usual].sort((one, other) => one.retentionMs - other.retentionMs)
}

async function stepWalk(
  db: Database,
  send: Send,
  state: EarlyState,
  { name, retentionMs, queues, areMeant }: Walk,
  longest: number,
): Promise<{ readonly early: number; readonly isDone: boolean }> {
  const names = arrayOf(queues)
  let [row] = await send(BEGIN, [name, names])
  // One that was just made is not seen by the statement that made it.
  if (row === undefined) [row] = await send(BEGIN, [name, names])
  // Another process is at it.
  if (row === undefined) return { early: 0, isDone: true }
  const [passed, isSame] = row
  if (isSame !== 'true') await send(AGAIN, [name, names])
  const from = isSame === 'true' ? passed! : FIRST
  const overOf = async (ids: readonly string[]) =>
    ids.length === 0 ? [] : (await send(OVER, [db.now(), retentionMs, longest, arrayOf(ids)])).map(([id]) => id!)

  const rows = await send(NEXT, [db.now(), retentionMs, from, names, areMeant, JOBS_MAX])
  const ours = rows.filter(([, isOurs]) => isOurs === 'true').map(([id]) => id!)
  const over = new Set(await overOf(ours))
  const passedNow = rows.filter(([, , isOld]) => isOld === 'true')
  const later = passedNow.filter(([id, isOurs]) => isOurs === 'true' && !over.has(id!)).map(([id]) => id!)
  await send(MOVE_ON, [name, passedNow.at(-1)?.[0] ?? from, arrayOf(later)])

  const noted = await send(LATER, [name, state.get(name) ?? FIRST, LATER_MAX])
  const isEnd = noted.length < LATER_MAX
  state.set(name, isEnd ? FIRST : noted.at(-1)![0]!)
  const missing = noted.filter(([, isThere]) => isThere !== 'true').map(([id]) => id!)
  const late = await overOf(noted.filter(([, isThere]) => isThere === 'true').map(([id]) => id!))
  if (missing.length + late.length > 0) await send(LATER_GONE, [name, arrayOf([...missing, ...late])])

  const gone = [...new Set([...over, ...late])]
  if (gone.length > 0) await send(REMOVE, [arrayOf(gone)])
  return { early: gone.length, isDone: passedNow.length < JOBS_MAX }
}
