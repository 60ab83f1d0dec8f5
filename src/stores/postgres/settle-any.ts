// settle, for any outcome: jobs that fail, die, wait, are released or cancelled. The general path also skips locked rows. ◄── settle.ts

import { fingerprint } from '../../core/fingerprint.js'
import type { SettledJob } from '../../core/job.js'
import type { StoredError } from '../../core/json.js'
import type { Call, Database, Send } from './database.js'
import { hasLinks } from './has-links.js'
import { intoArrivals, intoHeld, queuesToWake } from './held-place.js'
import { freeKeys } from './key-rows.js'
import { FLOW_MOVES, flowColumns } from './settle-flow.js'
import { columnsOf, deleteMatching } from './settle-succeeded.js'
import { arrayOf, jsonArrayOf, plainArrayOf, readJson, statement } from './statement.js'

// Skips rows that are locked, and on request leases that still hold. DELETE cannot skip locked rows, so they are locked first.
const DELETE_UNLOCKED = `held AS MATERIALIZED (
  SELECT outcome.id
    FROM outcome
   CROSS JOIN moment
   CROSS JOIN LATERAL (
     SELECT FROM :schema.running
      WHERE running.id = outcome.id
        AND running.fence = outcome.fence
        AND (NOT $13::boolean OR running.leased_until <= moment.now)
        FOR UPDATE SKIP LOCKED
   ) AS row
), gone AS (
  DELETE FROM :schema.running
   WHERE running.id = ANY (ARRAY(SELECT id FROM held))
  RETURNING id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker, track, group_name
)`

const settleAnySql = (gone: string, blocked = '') => `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now,
         pg_catalog.nextval(':schema.positions') * 65536 AS place
), outcome AS MATERIALIZED (
  SELECT *
    FROM ROWS FROM (unnest($2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::smallint[], $7::float8[], $8::json[],
                           $9::text[], $11::float8[], $12::boolean[], $14::text[], $16::text[], $17::boolean[],
                           $18::float8[], $19::float8[]),
                    json_array_elements($10::json))
           WITH ORDINALITY AS outcome (id, fence, state, attempt, crashes, delay_ms, result, reason, ran_ms, keyed, fingerprint,
                                       hold_limit, hold_group, hold_ms, more_cost, error, ordinal)
), ${gone}, ended AS MATERIALIZED (
  SELECT gone.id, gone.priority, gone.queue, gone.type, gone.worker, gone.attempt AS ran_attempt, moment.now,
         moment.place + outcome.ordinal AS position, moment.place, outcome.ordinal, gone.track, gone.group_name,
         outcome.hold_limit, outcome.hold_group, date_part('epoch', moment.now) * 1000 AS now_ms, outcome.hold_ms, outcome.more_cost, gone.fence AS claim_fence,
         -- A rescue raises the fence, so that the late worker's own settlement cannot pass for a repetition of it.
         gone.fence + $13::boolean::integer AS fence, outcome.attempt, coalesce(outcome.crashes, 0) AS crashes, outcome.delay_ms,
         outcome.result, outcome.reason, outcome.keyed, outcome.fingerprint,
         CASE WHEN json_typeof(outcome.error) <> 'null' THEN outcome.error END AS error,
         coalesce(moment.now - outcome.ran_ms * interval '1 millisecond', gone.claimed_at) AS started_at,
         outcome.state AS asked_state,
         -- The one rule that is the store's: a cancel requested while the job ran.
         CASE WHEN outcome.state IN ('retrying', 'scheduled', 'ready', 'blocked')
               AND (gone.cancel_requested OR EXISTS (SELECT FROM :schema.cancels WHERE cancels.id = gone.id)) THEN 'cancelled'
              ELSE outcome.state
          END AS state
    FROM gone
    JOIN outcome ON outcome.id = gone.id AND outcome.fence = gone.fence
   CROSS JOIN moment
), into_finished AS (
  INSERT INTO :schema.finished (id, finished_at, started_at, fence, attempt, crashes, ending, worker, result)
  SELECT id, now, started_at, fence, attempt, crashes, CAST(state AS :schema.ending), worker, result
    FROM ended
   WHERE state IN ('succeeded', 'cancelled')
), into_scheduled AS (
  INSERT INTO :schema.scheduled (id, run_at, fence, priority, attempt, crashes, retrying, queue, type, track, group_name)
  SELECT id, now + delay_ms * interval '1 millisecond', fence, priority, attempt, crashes, state = 'retrying', queue, type,
         greatest(track, 0), group_name                       -- negative: a plain job of a queue that has flow control
    FROM ended
   WHERE state IN ('retrying', 'scheduled')
), into_ready AS (
  INSERT INTO :schema.ready (id, position, since, fence, priority, attempt, crashes, moved, queue, type)
  SELECT id, position - 4611686018427387904, now, fence, priority, attempt, crashes, true, queue, type
    FROM ended
   WHERE state = 'ready' AND track <= 0
), back AS MATERIALIZED (
  SELECT id, position - 4611686018427387904 AS position, now, fence, track, priority, attempt, crashes, queue, group_name, type
    FROM ended
   WHERE state = 'ready'
), into_held AS (${intoHeld('back', 'true')}
), arrived AS (${intoArrivals('ended', '(SELECT place FROM moment)', "ended.state = 'ready'")}
), ${FLOW_MOVES}), into_dead AS (
  INSERT INTO :schema.dead (id, died_at, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error,
                            fingerprint, track, group_name)
  SELECT id, now, started_at, fence, priority, attempt, crashes, reason, queue, type, worker, error, fingerprint,
         greatest(track, 0), group_name
    FROM ended
   WHERE state = 'dead'
), into_attempts AS (
  INSERT INTO :schema.attempts (id, fence, started_at, finished_at, attempt, worker, error)
  SELECT id, claim_fence, started_at, now, ran_attempt, worker, error
    FROM ended
   WHERE error IS NOT NULL
), freed AS (${freeKeys("SELECT id FROM ended WHERE keyed AND state IN ('succeeded', 'cancelled', 'dead')")}
), ${blocked}announced AS (
  INSERT INTO :schema.link_checks (job)
  SELECT ended.id FROM ended WHERE ended.state IN ('succeeded', 'cancelled', 'dead') AND (${hasLinks('ended.id', '$15')})
  RETURNING job
)
SELECT count(*)::text AS count,
       (json_agg(ordinal) FILTER (WHERE (SELECT count(*) FROM ended) < cardinality($2)))::text AS settled,
       (json_agg(ordinal) FILTER (WHERE state <> asked_state))::text AS cancelled,
       (SELECT json_agg(job) FROM announced)::text AS parents,${queuesToWake('ended')} AS woken,
       (SELECT count(*) FROM moved)::text AS moved          -- what nothing reads is not run
  FROM ended`

const SETTLE_ANY = statement(
  'settle_any',
  settleAnySql(
    deleteMatching(
      'id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker, track, group_name',
    ),
  ),
)
const SETTLE_UNLOCKED = statement('settle_unlocked', settleAnySql(DELETE_UNLOCKED))

// Only where a job waits for its children. The look at them comes after the commit, as for a job that is made with parents (unblock.ts).
const INTO_BLOCKED = `into_blocked AS (
  INSERT INTO :schema.blocked (id, priority, cancel_with_parents, queue, type, track, group_name, fence, attempt, crashes, wakes_early)
  SELECT id, priority, false, queue, type, greatest(track, 0), group_name, fence, attempt, crashes, id = ANY ($22::uuid[])
    FROM ended
   WHERE state = 'blocked'
), linked AS (
  INSERT INTO :schema.parents (parent, child)
  SELECT link.parent, link.child
    FROM unnest($20::uuid[], $21::uuid[]) AS link (parent, child)
    JOIN ended ON ended.id = link.child AND ended.state = 'blocked'
      ON CONFLICT DO NOTHING
), looked_at AS (
  INSERT INTO :schema.link_checks (job) SELECT id FROM ended WHERE state = 'blocked'
), `
const SETTLE_ANY_BLOCKED = statement(
  'settle_any_blocked',
  settleAnySql(
    deleteMatching(
      'id, fence, claimed_at, priority, attempt, cancel_requested, queue, type, worker, track, group_name',
    ),
    INTO_BLOCKED,
  ),
)
const SETTLE_UNLOCKED_BLOCKED = statement('settle_unlocked_blocked', settleAnySql(DELETE_UNLOCKED, INTO_BLOCKED))

/** Whether a job waits for its children from now on. */
function isBlocking({ settlement }: SettledJob): boolean {
  return settlement.state === 'blocked'
}

/** Settles jobs with any outcome. The answer is one row: how many were settled, which ones unless all were, which of them became
 *  cancelled instead (both as ordinals from 1), and which have children. */
export function settleAny(
  db: Database,
  jobs: readonly SettledJob[],
  { path, marks, onlyExpired = false, isInTransaction = false }: AnyOptions,
): Call {
  const column = columnsOf(jobs)
  const errors = jobs.map(({ error }) => error)
  const values = [
    db.now(),
    plainArrayOf(jobs.map(({ id }) => id)),
    plainArrayOf(jobs.map(({ fence }) => fence)),
    plainArrayOf(jobs.map(({ settlement }) => settlement.state)),
    plainArrayOf(jobs.map(({ settlement }) => settlement.attempt)),
    column(({ settlement }) => settlement.crashes, 0),
    arrayOf(jobs.map(({ settlement }) => ('delayMs' in settlement ? settlement.delayMs : null))),
    column(({ result }) => result, null),
    column(({ settlement }) => ('reason' in settlement ? settlement.reason : null), null),
    jsonArrayOf(errors.every((error) => error === null) ? [] : errors.map((error) => JSON.stringify(error))),
    arrayOf(jobs.map(({ ranMs }) => ranMs)),
    arrayOf(jobs.map(({ idempotencyKey }) => idempotencyKey !== null)),
    onlyExpired,
    column((job) => marks.get(job) ?? null, null),
    isInTransaction,
    ...flowColumns(jobs),
  ]
  if (!jobs.some(isBlocking)) return [path === 'fast' ? SETTLE_ANY : SETTLE_UNLOCKED, values]
  const links = jobs.flatMap(({ id, children }) => (children?.ids ?? []).map((parent) => ({ parent, child: id })))
  const blocking = [
    plainArrayOf(links.map(({ parent }) => parent)),
    plainArrayOf(links.map(({ child }) => child)),
    plainArrayOf(jobs.filter(({ children }) => children?.wakesEarly === true).map(({ id }) => id)),
  ]
  return [path === 'fast' ? SETTLE_ANY_BLOCKED : SETTLE_UNLOCKED_BLOCKED, [...values, ...blocking]]
}

interface AnyOptions {
  /** The general path skips locked rows, and with `onlyExpired` leases that still hold. */
  readonly path: 'fast' | 'general'
  /** Fingerprints of the errors of jobs that die. */
  readonly marks: ReadonlyMap<SettledJob, string>
  readonly onlyExpired?: boolean
  readonly isInTransaction?: boolean
}

// A job may die of an error of an earlier attempt: too old for another attempt, or its limit was lowered meanwhile.
const LAST_ERRORS = statement(
  'last_errors',
  `
SELECT asked.id::text, last.error::text
  FROM pg_catalog.unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (
   SELECT attempts.error FROM :schema.attempts WHERE attempts.id = asked.id ORDER BY attempts.fence DESC LIMIT 1
 ) AS last`,
)

/** The fingerprints of the errors of jobs that die. */
export async function fingerprints(send: Send, jobs: readonly SettledJob[]): Promise<ReadonlyMap<SettledJob, string>> {
  const dying = jobs.filter(({ settlement }) => settlement.state === 'dead')
  const silent = dying.filter(({ error }) => error === null)
  const rows = silent.length > 0 ? await send(LAST_ERRORS, [arrayOf(silent.map(({ id }) => id))]) : []
  const earlier = new Map(rows.map(([id, error]) => [id!, readJson(error) as StoredError]))
  return new Map(dying.map((job) => [job, fingerprint(job.error ?? earlier.get(job.id) ?? null)]))
}
