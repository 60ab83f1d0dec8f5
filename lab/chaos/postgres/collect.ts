// Reads the history table and turns it into the store's events. The changes that one transaction made to one job are one step of
// its life.

import type pg from 'pg'
import { CRASHES_MAX, LIMIT_DEFAULTS } from '../../../src/core/limits.js'
import type { DeadReason, JobState } from '../../../src/core/states.js'
import type { StoredOptions } from '../../../src/stores/postgres/options-column.js'
import type { FinalState, JobStored, QueueOperated, StoreEvent, WritesUndone } from '../../history/events.js'
import { type Terms, termsOf } from './collect-terms.js'
import { LEFTOVER } from './old-days.js'
import { WITNESS } from './watch.js'

/** The events that the triggers record: all but the final states. */
type Happened = Exclude<StoreEvent, FinalState | QueueOperated | WritesUndone>

interface Change {
  readonly place: number
  readonly at: number
  /** When its transaction began. */
  readonly began: number
  /** When others could see it; null if unknown. */
  readonly committed: number | null
  readonly tx: string
  readonly source: string
  readonly id: string | null
  readonly fence: number | null
  readonly attempt: number | null
  readonly crashes: number | null
  readonly moment: number | null
  readonly word: string | null
  /** Where a job of a group waits. */
  readonly placeInGroup: number | null
  readonly terms: Terms | null
  readonly facts: {
    type: string
    priority: number
    options: StoredOptions | null
    key: string | null
    effect: string | null
  } | null
}

const PAGE = 20_000
const CHANGES = `
SELECT place::float8 AS place, (extract(epoch FROM at) * 1000)::float8 AS at,
       (extract(epoch FROM began) * 1000)::float8 AS began,
       (extract(epoch FROM pg_xact_commit_timestamp(tx::xid8::xid)) * 1000)::float8 AS committed, tx, source, id::text AS id, fence::float8 AS fence,
       attempt, crashes, (extract(epoch FROM moment) * 1000)::float8 AS moment, word, place_in_group::float8 AS "placeInGroup",
       facts, terms
  FROM ${WITNESS}.changes
 WHERE changes.place > $1
 ORDER BY changes.place
 LIMIT ${PAGE}`

/** Every step of every job's life, as the store's triggers wrote it. */
export async function* readChanges(sql: pg.Client): AsyncGenerator<StoreEvent> {
  await sql.query(`CREATE INDEX IF NOT EXISTS changes_in_order ON ${WITNESS}.changes (place)`)
  // Rows of one transaction and job are close together, so those still open at the end of a page are carried over to the next.
  let open = new Map<string, Change[]>()
  let after = 0
  for (;;) {
    const { rows } = await sql.query<Change>(CHANGES, [after])
    const before = open
    open = new Map()
    for (const row of rows) {
      const name = `${row.tx} ${row.id ?? row.place}`
      const known = before.get(name)
      if (known !== undefined) {
        before.delete(name)
        open.set(name, known)
      }
      const group = open.get(name)
      if (group === undefined) open.set(name, [row])
      else group.push(row)
    }
    for (const group of before.values()) yield* stepOf(group)
    if (rows.length === 0) return
    after = rows[rows.length - 1]!.place
  }
}

/** No transaction of a run takes this long, so the store's clock was set meanwhile. */
const STRAYED_MS = 60_000

/** The events made of one transaction's changes to one job. */
export function* stepOf(group: readonly Change[]): Generator<Happened> {
  const hasStrayed = group.some(({ at, began }) => Math.abs(at - began) > STRAYED_MS)
  const { committed: committedAt, began } = group[group.length - 1]!
  for (const event of eventsOf(group)) {
    yield {
      ...event,
      ...(hasStrayed ? { strayed: true } : {}),
      ...(committedAt === null ? {} : { committedAt }),
      ...(event.ev === 'claimed' || event.ev === 'tick' ? { began } : {}),
    }
  }
}

function* eventsOf(group: readonly Change[]): Generator<Happened> {
  const find = (source: string) => group.find((change) => change.source === source)
  for (const change of group) yield* aloneOf(change)
  const made = find('jobs_insert')
  const left = find('running_delete')
  const landed = landingOf(group)
  const claimed = find('running_insert')
  // A job that was written and has no state row was carried over from a dropped day.
  if (made !== undefined && landed === null && claimed === undefined) return
  if (made !== undefined) yield storedOf(made, landed)
  else if (left !== undefined && landed !== null) yield settledOf(left, landed)
  else if (landed !== null && landed.to === 'succeeded') {
    yield settledOf({ ...landed.change, fence: landed.change.fence }, landed)
  } else if (landed !== null) yield movedOf(landed, find('dead_delete') !== undefined)
  if (claimed !== undefined) yield claimOf(claimed)
}

/** Changes that are events by themselves. */
function* aloneOf(change: Change): Generator<Happened> {
  const { place, at, tx, source, fence, attempt, moment, word } = change
  const job = change.id
  const own = { order: place, at, tx }
  if (change.terms !== null) yield { ...own, ...termsOf(source, change.terms) }
  if (source === 'ticks_insert') yield { ...own, ev: 'tick', schedule: word!, tick: moment!, job }
  if (job === null) return
  if (source === 'extended') yield { ...own, ev: 'extended', job, fence: fence!, leasedUntil: moment! }
  if (source === 'cancel_asked') yield { ...own, ev: 'operated', job, action: 'ask to cancel', to: 'running' }
  if (source === 'effects_inside' || source === 'effects_outside') {
    yield { ...own, ev: 'effect', job, fence: fence!, attempt: attempt!, inTransaction: source === 'effects_inside' }
  }
}

interface Landing {
  readonly change: Change
  readonly to: JobState
  readonly reason: DeadReason | null
  readonly notBefore: number | null
}

/** Where the job went. */
function landingOf(group: readonly Change[]): Landing | null {
  for (const change of group) {
    const { source, word, moment } = change
    const landing = { change, reason: null, notBefore: null }
    if (source === 'ready_insert' || source === 'held_insert') return { ...landing, to: 'ready' }
    if (source === 'blocked_insert') return { ...landing, to: 'blocked' }
    if (source === 'scheduled_insert') return { ...landing, to: word as JobState, notBefore: moment }
    if (source === 'finished_insert') return { ...landing, to: word as JobState }
    if (source === 'dead_insert') return { ...landing, to: 'dead', reason: word as DeadReason }
  }
  return null
}

function storedOf(made: Change, landed: Landing | null): Happened {
  const { type, priority, options, key, effect } = made.facts!
  const tick = options?.schedule === undefined ? null : { schedule: options.schedule.name, at: options.schedule.tickMs }
  const isEffect = effect === 'in transaction' || effect === 'outside' || effect === 'none'
  const stored: JobStored = {
    ...{ ev: 'stored', order: made.place, at: made.at, tx: made.tx, job: made.id!, queue: made.word!, type, priority },
    // A job that was claimed as it was written had no state before.
    state: landed?.to ?? 'ready',
    runAt: landed?.notBefore ?? (landed?.to === 'blocked' ? landed.change.moment : null),
    maxAttempts: options?.limits?.maxAttempts ?? LIMIT_DEFAULTS.maxAttempts,
    maxCrashes: CRASHES_MAX,
    key: tick === null ? key : null,
    idempotencyKey: options?.key?.key ?? null,
    keyTtlMs: options?.key?.ttlMs ?? null,
    after: options?.after ?? [],
    onParentDead: options?.onParentDead ?? 'cancel',
    tick,
    ...(isEffect ? { effect } : {}),
    ...(options?.flow === undefined ? {} : { group: options.flow.group, limits: options.flow.limits }),
    ...placeOf(landed),
  }
  return stored
}

/** Where it waits in its group, if it does. */
function placeOf(landed: Landing | null): { readonly place?: number } {
  const place = landed?.change.placeInGroup ?? null
  return place === null ? {} : { place }
}

function settledOf(left: Change, landed: Landing): Happened {
  const { change, to, reason, notBefore } = landed
  return {
    ...{
      ev: 'settled',
      order: change.place,
      at: change.at,
      tx: change.tx,
      job: left.id!,
      fence: left.fence!,
      to,
      reason,
    },
    attempts: change.attempt ?? 0,
    crashes: change.crashes ?? 0,
    notBefore,
    // A rescue moves the fence on. That distinguishes it from a settlement.
    rescued: change.fence !== null && change.fence > left.fence!,
    ...placeOf(landed),
  }
}

/** A change of a job that was not running. */
function movedOf(landed: Landing, wasDead: boolean): Happened {
  const { change, to } = landed
  const own = { order: change.place, at: change.at, tx: change.tx, job: change.id!, ...placeOf(landed) }
  if (to === 'ready' && wasDead) return { ...own, ev: 'operated', action: 'requeue', to }
  if (to === 'ready' || to === 'scheduled') return { ...own, ev: 'promoted', to }
  return { ...own, ev: 'operated', action: wasDead ? 'discard' : 'cancel', to }
}

function claimOf({ place, at, tx, id, fence, attempt, word, moment }: Change): Happened {
  // After the job's beginning where both are of one statement.
  const order = place + 0.5
  return {
    ev: 'claimed',
    order,
    at,
    tx,
    job: id!,
    fence: fence!,
    attempt: attempt!,
    worker: word!,
    leasedUntil: moment!,
  }
}

const FINAL = `
SELECT jobs.id::text AS job, jobs.payload ->> 'key' AS key, jobs.options -> 'schedule' IS NOT NULL AS "isTick", place.*
  FROM :schema.jobs
  JOIN (SELECT id, ending::text AS state, attempt, NULL AS reason FROM :schema.finished
        UNION ALL SELECT id, 'dead', attempt, reason FROM :schema.dead
        UNION ALL SELECT id, 'ready', coalesce(attempt, 0), NULL FROM :schema.ready
        UNION ALL SELECT id, 'ready', coalesce(attempt, 0), NULL FROM :schema.held
        UNION ALL SELECT id, CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END, attempt, NULL FROM :schema.scheduled
        UNION ALL SELECT id, 'blocked', 0, NULL FROM :schema.blocked
        UNION ALL SELECT id, 'running', attempt, NULL FROM :schema.running) AS place USING (id)
 WHERE jobs.type <> '${LEFTOVER}'`

/** Each job's state now. */
export async function readFinal(sql: pg.Client, schema: string): Promise<StoreEvent[]> {
  type Row = {
    job: string
    key: string | null
    isTick: boolean
    state: JobState
    attempt: number
    reason: DeadReason | null
  }
  const { rows } = await sql.query<Row>(FINAL.replaceAll(':schema', `"${schema}"`))
  return rows.map(({ job, key, isTick, state, attempt, reason }) => {
    return { ev: 'final', job, key: isTick ? null : key, state, attempts: attempt, reason }
  })
}
