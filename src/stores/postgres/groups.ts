// Groups: settings of their own, paused, shown.

import type { GroupOverride } from '../../core/flow/settings.js'
import { GROUP_READY_MAX, type GroupPage, type GroupsRequest, type GroupView } from '../../core/flow/views.js'
import { record } from './audit.js'
import type { Database, Send } from './database.js'
import { rateValues } from './limit-row.js'
import { LOCK_FLOW } from './queue-flow.js'
import { type Row, readDate, readJson, statement } from './statement.js'

/** Whom a call is about, and who makes it. */
export interface GroupAct {
  readonly queue: string
  readonly group: string
  readonly by: string
}

const OPEN_QUEUE = statement(
  'open_queue_of_group',
  'INSERT INTO :schema.queues (name, created_at) VALUES ($1, coalesce($2::timestamptz, clock_timestamp())) ON CONFLICT DO NOTHING',
)
const OPEN = statement(
  'open_group',
  'INSERT INTO :schema.groups (queue, group_name) VALUES ($1, $2) ON CONFLICT DO NOTHING',
)
const LOCK = statement(
  'lock_group',
  'SELECT groups.override::text, groups.paused::text, groups.stopped_by::text FROM :schema.groups WHERE groups.queue = $1 AND groups.group_name = $2 FOR UPDATE',
)
const SET = statement(
  'set_group',
  `
UPDATE :schema.groups
   SET override = $3::json, concurrency = $4::integer, weight = $5::integer, rate_limit = $6::float8, rate_per_ms = $7::float8,
       rate_burst = $8::float8, rate_by_cost = $9::boolean
 WHERE groups.queue = $1 AND groups.group_name = $2`,
)
const SET_PAUSED = statement(
  'set_group_paused',
  'UPDATE :schema.groups SET paused = $3::boolean, stopped_by = NULL WHERE groups.queue = $1 AND groups.group_name = $2',
)
const OFFER = statement(
  'offer_group',
  `
INSERT INTO :schema.arrivals (turn, track, group_name)
SELECT (SELECT nextval(':schema.positions') * 65536), tracks.track, $2 FROM :schema.tracks WHERE tracks.queue = $1`,
)

type OnReady = (queue: string) => void

export async function setGroup(
  db: Database,
  act: GroupAct,
  override: GroupOverride | null,
  onReady: OnReady,
): Promise<void> {
  await change(db, act, onReady, async (send) => {
    const text = override === null ? null : JSON.stringify(override)
    const [[known = null] = []] = await send(LOCK, [act.queue, act.group])
    // Programs set their groups at every start: only what differs is a change.
    if (known === text) return null
    const rate = rateValues(override?.rate ?? null)
    const [concurrency, weight] = [override?.concurrency ?? null, override?.weight ?? null]
    await send(SET, [act.queue, act.group, text, concurrency, weight, ...rate])
    return { action: 'set group', before: readJson(known), after: override }
  })
}

export async function pauseGroup(db: Database, act: GroupAct, onReady: OnReady): Promise<void> {
  await setPaused(db, act, onReady, true)
}

export async function resumeGroup(db: Database, act: GroupAct, onReady: OnReady): Promise<void> {
  await setPaused(db, act, onReady, false)
}

async function setPaused(db: Database, act: GroupAct, onReady: OnReady, paused: boolean): Promise<void> {
  await change(db, act, onReady, async (send) => {
    const [[, known, stoppedBy = null] = []] = await send(LOCK, [act.queue, act.group])
    if (known === String(paused)) return null
    await send(SET_PAUSED, [act.queue, act.group, paused])
    return {
      action: paused ? 'pause group' : 'resume group',
      before: { paused: !paused, stoppedBy },
      after: { paused, stoppedBy: null },
    }
  })
}

interface Change {
  readonly action: string
  readonly before: unknown
  readonly after: unknown
}

/** Makes a change to a group, with its line in the audit log. Null when nothing differs. */
async function change(
  db: Database,
  { queue, group, by }: GroupAct,
  onReady: OnReady,
  make: (send: Send) => Promise<Change | null>,
): Promise<void> {
  const isChanged = await db.transaction('operate', async (send) => {
    await send(OPEN_QUEUE, [queue, db.now()])
    // A claim that is under way has read what held before. Its jobs start before this call answers, or not at all.
    await send(LOCK_FLOW, [queue])
    await send(OPEN, [queue, group])
    const made = await make(send)
    if (made === null) return false
    const { action, before, after } = made
    await send(OFFER, [queue, group])
    await record(db, send, { actor: by, action, target: queue, details: { group, before, after } })
    return true
  })
  if (isChanged) onReady(queue)
}

// The names of a queue's groups behind one of them, each found by skipping to the next in the three tables that know them.
const GROUPS = statement(
  'groups_shown',
  `
WITH RECURSIVE moment AS MATERIALIZED (
  SELECT date_part('epoch', coalesce($1::timestamptz, clock_timestamp())) * 1000 AS now_ms
), mine AS MATERIALIZED (
  SELECT coalesce(array_agg(tracks.track), '{}') AS tracks FROM :schema.tracks WHERE tracks.queue = $2
), shown (name, number) AS (
  SELECT $4::text COLLATE "C", 0
   UNION ALL
  SELECT next.name, shown.number + 1
    FROM shown
   CROSS JOIN LATERAL (
     SELECT min(found.name) AS name
       FROM (SELECT (SELECT held.group_name FROM :schema.held
                      WHERE NOT $7::boolean AND held.track = asked.track AND held.group_name > shown.name AND held.group_name >= $3 AND held.group_name <> ''
                      ORDER BY held.group_name LIMIT 1) AS name
               FROM mine, unnest(mine.tracks) AS asked (track)
              UNION ALL
             SELECT (SELECT running.group_name FROM :schema.running
                      WHERE NOT $7 AND running.track = asked.track AND running.track <> 0 AND running.group_name > shown.name
                        AND running.group_name >= $3 AND running.group_name <> ''
                      ORDER BY running.group_name LIMIT 1)
               FROM mine, unnest(mine.tracks) AS asked (track)
              UNION ALL
             SELECT (SELECT groups.group_name FROM :schema.groups
                      WHERE groups.queue = $2 AND groups.group_name > shown.name AND groups.group_name >= $3
                        AND (groups.paused OR groups.override IS NOT NULL)
                      ORDER BY groups.group_name LIMIT 1)) AS found
   ) AS next
   WHERE next.name IS NOT NULL AND starts_with(next.name, $3) AND shown.number < $5::integer
)
SELECT shown.name,
       (SELECT count(*) FROM (SELECT FROM :schema.held, mine WHERE held.track = ANY (mine.tracks) AND held.group_name = shown.name LIMIT $6) AS few)::text,
       (SELECT count(*) FROM :schema.running, mine
         WHERE running.track = ANY (mine.tracks) AND running.track <> 0 AND running.group_name = shown.name)::text,
       coalesce(groups.paused, false)::text, groups.stopped_by::text,
       CASE WHEN groups.not_before > moment.now_ms THEN groups.not_before END::text, groups.override::text
  FROM shown
 CROSS JOIN moment
  LEFT JOIN :schema.groups ON groups.queue = $2 AND groups.group_name = shown.name
 WHERE shown.number > 0
 ORDER BY shown.number`,
)

export async function groups(db: Database, request: GroupsRequest): Promise<GroupPage> {
  const { queue, prefix, after, limit, own = false } = request
  const values = [db.now(), queue, prefix, after ?? '', limit + 1, GROUP_READY_MAX, own]
  const rows = await db.send('look', GROUPS, values)
  const page = rows.slice(0, limit).map(readGroup)
  return { groups: page, next: rows.length > limit ? page.at(-1)!.group : null }
}

function readGroup([group, ready, running, paused, stoppedBy, until, override]: Row): GroupView {
  return {
    group: group!,
    ready: Number(ready),
    running: Number(running),
    paused: paused === 'true',
    stoppedBy: stoppedBy ?? null,
    until: readDate(until),
    override: readJson(override) as GroupOverride | null,
  }
}
