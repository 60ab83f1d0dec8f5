// The net beneath: a group with a held job, a free slot and nothing that would make a claim look at it gets an event. It must find nothing.
// It is for settlements by processes of an older version, which write no events, for queues that were removed while jobs were being
// enqueued to them, and for groups that wait for a time of a clock that was days ahead. ◄── promote.ts

import type { Database } from './database.js'
import { walkHeld } from './queue-flow.js'
import { statement } from './statement.js'

/** Not with every promote. One queue at a time, a window of its groups. */
const EVERY_MS = 1_000
const SELDOM_MS = 60_000
const WINDOW = 200

/** Where the next look begins. */
export interface FlowSweep {
  track: number
  group: string
  /** On the process's own monotonic clock. */
  nextMs: number
  /** How many groups it has found so far. */
  repaired: number
  /** The queues whose running jobs were counted last, when they are counted again, and how long that was put off. */
  limited: string | null
  countMs: number
  countEveryMs: number
}

export function newFlowSweep(): FlowSweep {
  return { track: 0, group: '', nextMs: 0, repaired: 0, limited: null, countMs: 0, countEveryMs: EVERY_MS }
}

// One small statement a second: the queues with a concurrency, and the next track with jobs, with whether its queue has flow control.
const NEXT = statement(
  'net_next',
  `
SELECT (SELECT array_agg(substr(limits.name, 7) ORDER BY limits.name)::text
          FROM :schema.limits
         WHERE starts_with(limits.name, 'queue:') AND limits.concurrency IS NOT NULL),
       next.track::text, next.queue, EXISTS (SELECT FROM :schema.flows WHERE flows.queue = next.queue),
       (SELECT flows.queue FROM :schema.flows WHERE flows.walk IS NOT NULL LIMIT 1)
  FROM (SELECT) AS always
  LEFT JOIN LATERAL (
    SELECT tracks.track, tracks.queue
      FROM :schema.tracks
     WHERE tracks.track >= $1::integer
       AND EXISTS (SELECT FROM :schema.held WHERE held.track = tracks.track)
     ORDER BY tracks.track
     LIMIT 1
  ) AS next ON true`,
)
// A queue that was removed while a job was being enqueued to it has flow control again.
const OPEN = statement('net_open_flow', 'SELECT :schema.open_flow($1)::text')
// Under the lock nothing is between a claim's look and its commit: what one snapshot shows must be whole.
const LOCK = statement(
  'net_lock',
  'SELECT true::text FROM :schema.flows WHERE flows.queue = $1 AND flows.walk IS NULL FOR NO KEY UPDATE SKIP LOCKED',
)

const REPAIR = statement(
  'net_repair',
  `
WITH RECURSIVE mine AS MATERIALIZED (
  SELECT array_agg(tracks.track) AS tracks FROM :schema.tracks WHERE tracks.queue = $1
), waiting (group_name, number) AS (
  SELECT (SELECT min(held.group_name) FROM :schema.held WHERE held.track = $2::integer AND held.group_name >= $3), 1
   UNION ALL
  SELECT (SELECT min(held.group_name) FROM :schema.held WHERE held.track = $2 AND held.group_name > waiting.group_name), waiting.number + 1
    FROM waiting
   WHERE waiting.group_name IS NOT NULL AND waiting.number <= $4::integer
), events AS MATERIALIZED (
  SELECT arrivals.group_name FROM :schema.arrivals WHERE arrivals.track = $2 ORDER BY arrivals.turn LIMIT 10001
), forgotten AS MATERIALIZED (
  SELECT waiting.group_name
    FROM waiting
    JOIN :schema.flows ON flows.queue = $1
    LEFT JOIN :schema.groups ON groups.queue = $1 AND groups.group_name = waiting.group_name
   CROSS JOIN mine
   WHERE waiting.group_name IS NOT NULL AND waiting.number <= $4
     AND groups.paused IS NOT TRUE
     AND (SELECT count(*) FROM events) <= 10000                     -- with more there is work to do before anybody is forgotten
     AND (waiting.group_name NOT IN (SELECT events.group_name FROM events)) IS TRUE
     AND NOT EXISTS (SELECT FROM :schema.rotation WHERE rotation.track = $2 AND rotation.group_name = waiting.group_name)
     -- No claim lets a group nap for longer than a day. One that does was laid down by a clock that was ahead.
     AND NOT EXISTS (SELECT FROM :schema.naps
                      WHERE naps.track = $2 AND naps.group_name = waiting.group_name
                        AND naps.until <= date_part('epoch', coalesce($5::timestamptz, clock_timestamp())) * 1000 + 90000000)
     AND (waiting.group_name = ''
          OR coalesce(CASE WHEN flows.ordered THEN 1 ELSE coalesce(groups.concurrency, flows.concurrency) END, 2147483647)
             > (SELECT count(*) FROM :schema.running
                 WHERE running.track = ANY (mine.tracks) AND running.track <> 0 AND running.group_name = waiting.group_name))
     -- An ordered group may wait for a job that has started, or for one of another track.
     AND NOT (flows.ordered AND waiting.group_name <> ''
              AND (EXISTS (SELECT FROM :schema.scheduled
                            WHERE scheduled.track = ANY (mine.tracks) AND scheduled.track <> 0 AND scheduled.fence IS NOT NULL
                              AND scheduled.group_name = waiting.group_name)
                   OR EXISTS (SELECT FROM :schema.held
                               WHERE held.track = ANY (mine.tracks) AND held.track <> $2 AND held.group_name = waiting.group_name)))
), repaired AS (
  INSERT INTO :schema.arrivals (turn, track, group_name)
  SELECT (SELECT nextval(':schema.positions') * 65536), $2, forgotten.group_name FROM forgotten
  RETURNING group_name
), counted AS (                                                     -- for doctor: it must stay 0
  UPDATE :schema.flows
     SET repaired = least(flows.repaired, 1000000000) + (SELECT count(*) FROM forgotten), repaired_at = coalesce($5::timestamptz, clock_timestamp())
   WHERE flows.queue = $1 AND EXISTS (SELECT FROM forgotten)
)
SELECT (SELECT count(*) FROM repaired)::text,
       (SELECT waiting.group_name FROM waiting WHERE waiting.number = $4 + 1)`,
)

// A claim that was under way when a queue got its limit has leased plain jobs that do not count yet. It reads all of running, so it is asked
// for less and less often while the same queues have limits and nothing is found.
const COUNT = statement(
  'net_count_running',
  `
UPDATE :schema.running
   SET track = - (SELECT flows.number FROM :schema.flows WHERE flows.queue = running.queue)
 WHERE running.ctid = ANY (ARRAY(
   SELECT plain.ctid
     FROM :schema.running AS plain
     JOIN :schema.flows ON flows.queue = plain.queue
    WHERE plain.track = 0 AND plain.queue = ANY ($1::text[])
    LIMIT 1000
      FOR UPDATE OF plain SKIP LOCKED))
RETURNING running.id::text`,
)

// The process that changed their settings died, or is not through yet. Until then groups may lack an event.
const STEPS_MAX = 20

async function walkOn(db: Database, queue: string): Promise<string> {
  for (let step = 0; step < STEPS_MAX; step++) {
    if (await walkHeld((...call) => db.send('upkeep', ...call), queue)) break
  }
  return queue
}

/** Looks at the next window of groups; answers the queue in which some had been forgotten. While an old snapshot is held it reads every job
 *  that waited since, so that it is done seldom. */
export async function sweepFlow(db: Database, sweep: FlowSweep, hasOldSnapshot: boolean): Promise<string | null> {
  const nowMs = performance.now()
  if (nowMs < sweep.nextMs) return null
  sweep.nextMs = nowMs + (hasOldSnapshot ? SELDOM_MS : EVERY_MS)
  const [next] = await db.send('upkeep', NEXT, [sweep.track])
  const [limited, track, queue, isOpen, walked] = next!
  if (limited != null) await countRunning(db, sweep, limited, nowMs)
  if (walked != null) return walkOn(db, walked)
  if (track == null) {
    Object.assign(sweep, { track: 0, group: '' })
    return null
  }
  if (isOpen !== 't') await db.send('upkeep', OPEN, [queue])
  return (await repair(db, sweep, Number(track), queue!)) ? queue! : null
}

async function countRunning(db: Database, sweep: FlowSweep, limited: string, nowMs: number): Promise<void> {
  const isNew = limited !== sweep.limited
  if (!isNew && nowMs < sweep.countMs) return
  const found = await db.send('upkeep', COUNT, [limited])
  sweep.limited = limited
  sweep.countEveryMs = isNew || found.length > 0 ? EVERY_MS : Math.min(SELDOM_MS, sweep.countEveryMs * 2)
  sweep.countMs = nowMs + sweep.countEveryMs
}

async function repair(db: Database, sweep: FlowSweep, track: number, queue: string): Promise<boolean> {
  const from = track === sweep.track ? sweep.group : ''
  const found = await db.transaction('upkeep', async (send) => {
    // A claim is under way: another time.
    if ((await send(LOCK, [queue])).length === 0) return null
    return (await send(REPAIR, [queue, track, from, WINDOW, db.now()]))[0]!
  })
  if (found === null) return false
  const [repaired, group] = found
  Object.assign(sweep, group == null ? { track: track + 1, group: '' } : { track, group })
  sweep.repaired += Number(repaired)
  return Number(repaired) > 0
}

/** Groups that were found forgotten, in the queue where it happened last. */
export interface RepairedGroups {
  readonly queue: string
  readonly count: number
  readonly agoMs: number
}

const LAST_REPAIRED = statement(
  'last_repaired',
  `
SELECT flows.queue, flows.repaired::text, (date_part('epoch', clock_timestamp() - flows.repaired_at) * 1000)::float8::text
  FROM :schema.flows
 WHERE flows.repaired > 0
 ORDER BY flows.repaired_at DESC
 LIMIT 1`,
)

/** What the net found last, for doctor; null when it never found anything. */
export async function lastRepaired(db: Database): Promise<RepairedGroups | null> {
  const [row] = await db.send('look', LAST_REPAIRED, [])
  return row === undefined ? null : { queue: row[0]!, count: Number(row[1]), agoMs: Number(row[2]) }
}
