// Schedules: due, fired, set. A firing is one transaction: the schedule moves on, its ticks are recorded as unique, and
// their jobs are written, or none of it happens. Any number of processes may try.

import { HoldfastError } from '../../core/errors.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import type { ScheduleBound } from '../../core/operator-store.js'
import type { Schedule, ScheduleView } from '../../core/schedule.js'
import { LATE_AFTER_MS } from '../../core/schedule.js'
import { SCHEDULES_MAX, tooManySchedules } from '../../core/schedule-limit.js'
import { isFinished } from '../../core/states.js'
import type { DueSchedules, Fired, FireRequest } from '../../core/upkeep-store.js'
import type { Database, Send } from './database.js'
import { enqueueTicks } from './enqueue-general.js'
import { type Row, readDate, readJson, readMs, statement } from './statement.js'
import { statesOf } from './states.js'

const COLUMNS = `schedules.settings, schedules.paused, (extract(epoch FROM schedules.next_at) * 1000)::float8,
       (extract(epoch FROM schedules.last_at) * 1000)::float8, schedules.last_job`

function readSchedule([settings, paused, nextAt, lastAt, lastJob]: Row): ScheduleView {
  return {
    ...(readJson(settings) as Schedule),
    paused: paused === 't',
    nextAt: readDate(nextAt),
    lastAt: readDate(lastAt),
    lastJobId: lastJob ?? null,
  }
}

// The first due schedule of each queue, then the second of each, and so on. All due rows are sorted for that.
const DUE = statement(
  'due',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), waiting AS MATERIALIZED (
  SELECT schedules.name, schedules.queue,
         row_number() OVER (PARTITION BY schedules.queue ORDER BY schedules.next_at, schedules.name) AS turn
    FROM :schema.schedules, moment
   WHERE NOT schedules.paused AND schedules.next_at <= moment.now
), due AS MATERIALIZED (
  SELECT name, row_number() OVER (ORDER BY turn, queue <= $3::text, queue) AS place
    FROM waiting
   ORDER BY turn, queue <= $3, queue
   LIMIT $2
)
SELECT (extract(epoch FROM moment.now) * 1000)::float8,
       CASE WHEN (SELECT count(*) FROM waiting) > $2 THEN 0
            ELSE (SELECT (extract(epoch FROM min(later.next_at) - moment.now) * 1000)::float8
                    FROM :schema.schedules AS later
                   WHERE NOT later.paused AND later.next_at > moment.now)
        END,
       ${COLUMNS}
  FROM moment
  LEFT JOIN (due JOIN :schema.schedules ON schedules.name = due.name) ON true
 ORDER BY due.place`,
)

export async function due(db: Database, limit: number, afterQueue = ''): Promise<DueSchedules> {
  const rows = await db.send('upkeep', DUE, [db.now(), limit, afterQueue])
  const [nowMs, nextDueMs] = rows[0]!
  return {
    schedules: rows.filter(([, , settings]) => settings !== null).map(([, , ...columns]) => readDue(columns)),
    nowMs: Number(nowMs),
    nextDueMs: readMs(nextDueMs),
  }
}

function readDue(row: Row): DueSchedules['schedules'][number] {
  const [, , nextAt] = row
  return { ...readSchedule(row), nextAtMs: Number(nextAt) }
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

// The schedule goes on from the latest tick that was fired, by any process.
const MOVE_ON_AGAIN = statement(
  'move_schedule_on_again',
  `
UPDATE :schema.schedules
   SET next_at = to_timestamp($2::float8 / 1000),
       last_at = coalesce(to_timestamp($3::float8 / 1000), last_at),
       last_job = coalesce($4::uuid, last_job)
 WHERE name = $1
   AND next_at < to_timestamp($2::float8 / 1000)`,
)

/** Fires ticks again that a failover lost, in a transaction: each that is not recorded, with the job that it made. Several processes may
 *  have fired them in turn, so the schedule need not stand where this one had found it. Returns the jobs that were written. */
export async function fireAgain(
  db: Database,
  send: Send,
  request: FireRequest,
  made: ReadonlySet<string>,
): Promise<readonly NewJob[]> {
  const lost: FireRequest['ticks'][number][] = []
  for (const tick of request.ticks) {
    const isJob = made.has(tick.job.id)
    const [recorded] = await send(RECORD_TICK, [request.name, tick.tickMs, isJob ? tick.job.id : null])
    if (recorded !== undefined && isJob) lost.push(tick)
  }
  await enqueueTicks(
    db,
    send,
    lost.map(({ tickMs, job }) => ({ job, tickMs, name: request.name })),
  )
  const last = request.ticks.findLast(({ job }) => made.has(job.id))
  await send(MOVE_ON_AGAIN, [
    ...[request.name, request.nextAtMs],
    ...[request.ticks.at(-1)?.tickMs ?? null, last?.job.id ?? null],
  ])
  return lost.map(({ job }) => job)
}

interface FireCalls {
  /** Called before jobs are written, and waited for. */
  readonly onJobs: (jobs: readonly NewJob[]) => Promise<void> | null
  readonly onReady: (queue: string) => void
}

export async function fire(db: Database, request: FireRequest, { onJobs, onReady }: FireCalls): Promise<Fired> {
  const made = await db.transaction('upkeep', async (send) => {
    const [row] = await send(LOCK_SCHEDULE, [request.name, request.expectedNextAtMs])
    if (row === undefined) return null
    const [settings, lastJob = null] = row
    const { overlap } = readJson(settings) as Schedule
    const ticks = await recordTicks(send, request, overlap, lastJob)
    await onJobs(ticks.map(({ job }) => job))
    const answers = await enqueueTicks(
      db,
      send,
      ticks.map(({ tickMs, job }) => ({ job, tickMs, name: request.name })),
    )
    // If another job holds the key of a tick's job, the tick still counts as fired.
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

/** Records ticks and returns those that become jobs. Ticks that were recorded before, or that would overlap, do not. */
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
WITH room AS MATERIALIZED (
  -- The bounds apply to new schedules only. Two that are created at the same moment may together exceed them by one.
  SELECT CASE WHEN isnew THEN (SELECT count(*) FROM :schema.schedules) >= $8::integer ELSE false END AS too_many,
         CASE WHEN isnew AND $7::text IS NOT NULL
              THEN (SELECT count(*) FROM :schema.schedules WHERE created_by = $7) >= $9::integer ELSE false END AS too_many_of_one
    FROM (SELECT NOT EXISTS (SELECT FROM :schema.schedules WHERE name = $4)) AS known (isnew)
), changed AS (
  INSERT INTO :schema.schedules (name, settings, next_at, created_by)
  SELECT $4, $5::json, to_timestamp($6::float8 / 1000), $7
    FROM room
   WHERE NOT too_many AND NOT too_many_of_one
      ON CONFLICT (name) DO UPDATE
     SET settings = excluded.settings,
         -- Other times start anew; any other change leaves the next tick where it is.
         next_at = CASE WHEN schedules.settings->>'cron' = excluded.settings->>'cron'
                         AND schedules.settings->>'zone' = excluded.settings->>'zone'
                        THEN schedules.next_at ELSE excluded.next_at END
   -- Programs set their schedules at every start, so only a difference is a change. The newest version of the row is compared, so that
   -- only one of many processes that start together records the change.
   WHERE schedules.settings::text <> excluded.settings::text
  RETURNING schedules.*
), audited AS (${AUDITED}
)
SELECT room.too_many, room.too_many_of_one, ${COLUMNS.replaceAll('schedules.', 'changed.')}
  FROM room
  LEFT JOIN changed ON true`,
)

const SCHEDULE = statement('schedule', `SELECT ${COLUMNS} FROM :schema.schedules WHERE name = $1`)

const SET_TRIES = 3

export async function setSchedule(
  db: Database,
  schedule: Schedule,
  nextAtMs: number,
  by: string,
  bound?: ScheduleBound,
): Promise<ScheduleView> {
  const bounds = [bound?.maker ?? null, SCHEDULES_MAX, bound?.most ?? SCHEDULES_MAX]
  const values = [db.now(), by, 'set schedule', schedule.name, JSON.stringify(schedule), nextAtMs, ...bounds]
  for (let left = SET_TRIES; left > 0; left--) {
    const [[tooMany, tooManyOfOne, ...changed] = []] = await db.send('operate', SET_SCHEDULE, values)
    if (tooMany === 't') throw tooManySchedules(schedule.name, SCHEDULES_MAX, false)
    if (tooManyOfOne === 't') throw tooManySchedules(schedule.name, bound!.most, true)
    // No row: the schedule exists unchanged, or it was removed meanwhile.
    const [settings] = changed
    const [row] = settings === null ? await db.send('operate', SCHEDULE, [schedule.name]) : [changed]
    if (row !== undefined) return readSchedule(row)
  }
  throw new HoldfastError(
    'store_unavailable',
    `schedule "${schedule.name}" was removed ${SET_TRIES} times while it was being set: set it again`,
    { retryable: true, details: { schedule: schedule.name } },
  )
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

const SCHEDULES = statement(
  'schedules',
  `SELECT ${COLUMNS} FROM :schema.schedules ORDER BY name LIMIT ${SCHEDULES_MAX}`,
)

export async function schedules(db: Database): Promise<readonly ScheduleView[]> {
  return (await db.send('look', SCHEDULES, [])).map(readSchedule)
}

const LATE = statement(
  'late_schedules',
  `
SELECT late.name, late.queue, (extract(epoch FROM moment.now - late.next_at) * 1000)::float8, count(*) OVER ()
  FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
  JOIN :schema.schedules AS late ON NOT late.paused AND late.next_at < moment.now - $2::float8 * interval '1 millisecond'
 ORDER BY late.next_at, late.name
 LIMIT 1`,
)

/** Of the late schedules the one whose tick has waited longest, and how many are late; null when none is. */
export async function lateSchedules(db: Database): Promise<LateSchedules | null> {
  const [row] = await db.send('look', LATE, [db.now(), LATE_AFTER_MS])
  if (row === undefined) return null
  const [name, queue, lateMs, count] = row
  return { name: name!, queue: queue!, lateMs: Number(lateMs), count: Number(count) }
}

export interface LateSchedules {
  readonly name: string
  readonly queue: string
  readonly lateMs: number
  readonly count: number
}

// Its last tick lies in the future: the clock was ahead when it fired, and its next time was not set again since.
const AHEAD = statement(
  'schedules_ahead',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), ahead AS MATERIALIZED (
  SELECT schedules.name
    FROM :schema.schedules, moment
   WHERE NOT schedules.paused
     AND schedules.last_at > moment.now + interval '1 minute'
     AND schedules.next_at > schedules.last_at
)
SELECT min(name), count(*) FROM ahead HAVING count(*) > 0`,
)

/** A schedule that waits because the clock was ahead when it fired last, and how many do; null when none does. */
export async function schedulesAhead(db: Database): Promise<SchedulesAhead | null> {
  const [row] = await db.send('look', AHEAD, [db.now()])
  if (row === undefined) return null
  const [name, count] = row
  return { name: name!, count: Number(count) }
}

export interface SchedulesAhead {
  readonly name: string
  readonly count: number
}
