// Schedules: due, fired, set. A firing is one transaction: the schedule moves on, its ticks are recorded as unique, and
// their jobs are written, or none of it happens. Any number of processes may try.

import type { Enqueued, Schedule, ScheduleView } from '../../core/job.js'
import { isFinished } from '../../core/states.js'
import type { DueSchedules, Fired, FireRequest } from '../../core/store.js'
import type { Database, Send } from './database.js'
import { enqueueTicks } from './enqueue.js'
import { knowQueues } from './queues.js'
import { type Row, readDate, readJson, readMs, statement } from './statement.js'
import { statesOf } from './states.js'

const COLUMNS = `schedules.settings, schedules.paused, (extract(epoch FROM schedules.next_at) * 1000)::float8,
       (extract(epoch FROM schedules.last_at) * 1000)::float8, schedules.last_job`

function readSchedule(row: Row): ScheduleView {
  return {
    ...(readJson(row[0]) as Schedule),
    paused: row[1] === 't',
    nextAt: readDate(row[2]),
    lastAt: readDate(row[3]),
    lastJobId: row[4] ?? null,
  }
}

const DUE = statement(
  'due',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
  SELECT ${COLUMNS}, schedules.name
    FROM :schema.schedules, moment
   WHERE NOT schedules.paused AND schedules.next_at <= moment.now
   ORDER BY schedules.next_at, schedules.name
   LIMIT $2
)
SELECT due.*, (extract(epoch FROM moment.now) * 1000)::float8,
       (SELECT (extract(epoch FROM min(schedules.next_at) - moment.now) * 1000)::float8
          FROM :schema.schedules
         WHERE NOT schedules.paused AND schedules.name NOT IN (SELECT name FROM due))
  FROM moment
  LEFT JOIN due ON true`,
)

export async function due(db: Database, limit: number): Promise<DueSchedules> {
  const rows = await db.send('upkeep', DUE, [db.now(), limit])
  const nextDueMs = readMs(rows[0]![7])
  return {
    schedules: rows
      .filter((row) => row[0] !== null)
      .map((row) => ({ ...readSchedule(row), nextAtMs: Number(row[2]) }))
      .sort((a, b) => a.nextAtMs - b.nextAtMs || (a.name < b.name ? -1 : 1)),
    nowMs: Number(rows[0]![6]),
    nextDueMs: nextDueMs === null ? null : Math.max(0, nextDueMs),
  }
}

const LOCK_SCHEDULE = statement(
  'lock_schedule',
  `
SELECT settings, last_job
  FROM :schema.schedules
 WHERE name = $1
   AND NOT paused
   AND next_at = to_timestamp($2::float8 / 1000)
   FOR UPDATE`,
)

const RECORD_TICK = statement(
  'record_tick',
  `
INSERT INTO :schema.ticks (schedule, tick, job)
VALUES ($1, to_timestamp($2::float8 / 1000), $3::uuid)
    ON CONFLICT DO NOTHING
RETURNING tick::text`,
)

const MOVE_ON = statement(
  'move_schedule_on',
  `
UPDATE :schema.schedules
   SET next_at = to_timestamp($2::float8 / 1000),
       last_at = coalesce(to_timestamp($3::float8 / 1000), last_at),
       last_job = coalesce($4::uuid, last_job)
 WHERE name = $1`,
)

export async function fire(db: Database, request: FireRequest, onReady: (queue: string) => void): Promise<Fired> {
  const made = await db.transaction('upkeep', async (send) => {
    const [row] = await send(LOCK_SCHEDULE, [request.name, request.expectedNextAtMs])
    if (row === undefined) return null
    const { overlap } = readJson(row[0]) as Schedule
    const ticks = await recordTicks(send, request, overlap, row[1] ?? null)
    if (ticks.length > 0) await knowQueues(send, [...new Set(ticks.map(({ job }) => job.queue))])
    const answers = await enqueueTicks(
      db,
      send,
      ticks.map(({ tickMs, job }) => ({ job, tickMs, name: request.name })),
    )
    // A tick whose job was kept away by a key has fired all the same.
    const jobs = ticks.filter((_, index) => isCreated(answers[index]!))
    const lastTickMs = request.ticks.at(-1)?.tickMs ?? null
    await send(MOVE_ON, [request.name, request.nextAtMs, lastTickMs, jobs.at(-1)?.job.id ?? null])
    return jobs
  })
  if (made === null) return { fired: false, jobs: [] }
  for (const { job } of made) onReady(job.queue)
  return { fired: true, jobs: made.map(({ job }) => job.id) }
}

function isCreated(answer: Enqueued): boolean {
  return 'created' in answer && answer.created
}

/** Records ticks and returns those that become jobs: not the ones recorded before, nor those that would overlap. */
async function recordTicks(
  send: Send,
  request: FireRequest,
  overlap: Schedule['overlap'],
  lastJob: string | null,
): Promise<FireRequest['ticks']> {
  let isBusy = overlap === 'skip' && lastJob !== null && (await isUnfinished(send, lastJob))
  const jobs: FireRequest['ticks'][number][] = []
  for (const tick of request.ticks) {
    const [recorded] = await send(RECORD_TICK, [request.name, tick.tickMs, isBusy ? null : tick.job.id])
    if (recorded === undefined || isBusy) continue
    jobs.push(tick)
    isBusy = overlap === 'skip'
  }
  return jobs
}

async function isUnfinished(send: Send, id: string): Promise<boolean> {
  const state = (await statesOf(send, [id])).get(id)
  return state !== undefined && !isFinished(state)
}

const AUDITED = `
INSERT INTO :schema.audit (at, actor, action, target)
SELECT coalesce($1::timestamptz, clock_timestamp()), $2, $3, changed.name
  FROM changed`

const SET_SCHEDULE = statement(
  'set_schedule',
  `
WITH changed AS (
  INSERT INTO :schema.schedules (name, settings, next_at)
  VALUES ($4, $5::json, to_timestamp($6::float8 / 1000))
      ON CONFLICT (name) DO UPDATE
     SET settings = excluded.settings,
         -- Other times start anew; any other change leaves the next tick where it is.
         next_at = CASE WHEN schedules.settings->>'cron' = excluded.settings->>'cron'
                         AND schedules.settings->>'zone' = excluded.settings->>'zone'
                        THEN schedules.next_at ELSE excluded.next_at END
  RETURNING schedules.*
), audited AS (${AUDITED}
)
SELECT ${COLUMNS.replaceAll('schedules.', 'changed.')} FROM changed`,
)

export async function setSchedule(
  db: Database,
  schedule: Schedule,
  nextAtMs: number,
  by: string,
): Promise<ScheduleView> {
  const values = [db.now(), by, 'set schedule', schedule.name, JSON.stringify(schedule), nextAtMs]
  const [row] = await db.send('operate', SET_SCHEDULE, values)
  return readSchedule(row!)
}

const REMOVE_SCHEDULE = statement(
  'remove_schedule',
  `
WITH changed AS (
  DELETE FROM :schema.schedules WHERE name = $4 RETURNING name
)${AUDITED}
RETURNING target`,
)

export async function removeSchedule(db: Database, name: string, by: string): Promise<boolean> {
  return (await db.send('operate', REMOVE_SCHEDULE, [db.now(), by, 'remove schedule', name])).length > 0
}

const PAUSE_SCHEDULE = statement(
  'pause_schedule',
  `
WITH changed AS (
  UPDATE :schema.schedules
     SET paused = $5, next_at = coalesce(to_timestamp($6::float8 / 1000), next_at)
   WHERE name = $4
  RETURNING name
)${AUDITED}
RETURNING target`,
)

/** Pauses a schedule, or resumes it with its next time. */
export async function setSchedulePaused(
  db: Database,
  name: string,
  nextAtMs: number | null,
  by: string,
): Promise<boolean> {
  const isPause = nextAtMs === null
  const action = isPause ? 'pause schedule' : 'resume schedule'
  return (await db.send('operate', PAUSE_SCHEDULE, [db.now(), by, action, name, isPause, nextAtMs])).length > 0
}

const SCHEDULES = statement('schedules', `SELECT ${COLUMNS} FROM :schema.schedules ORDER BY name LIMIT 10000`)

export async function schedules(db: Database): Promise<readonly ScheduleView[]> {
  return (await db.send('look', SCHEDULES, [])).map(readSchedule)
}
