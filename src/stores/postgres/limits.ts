// Limits by name: set, removed, shown.

import { type AdaptiveState, concurrencyOf, startingAt } from '../../core/flow/adaptive.js'
import type { Breaker, BreakerPosition, BreakerSettings, Outcomes } from '../../core/flow/breaker.js'
import { isQueueLimit } from '../../core/flow/job-flow.js'
import { startsAt } from '../../core/flow/rate.js'
import { limitOfQueue, limitUnknown, tooManyLimits } from '../../core/flow/refusals.js'
import { LIMITS_MAX, type LimitSettings } from '../../core/flow/settings.js'
import type { BreakerView, LimitOrigin, LimitView } from '../../core/flow/views.js'
import { record } from './audit.js'
import type { Database, Send } from './database.js'
import { KEEP_LIMIT, limitValues } from './limit-row.js'
import { arrayOf, type Row, readJson, readMs, statement } from './statement.js'

const COLUMNS = `limits.name, limits.origin, limits.settings::text, limits.adaptive::text, limits.empty_at::text, limits.not_before::text,
       limits.position, limits.since::text, limits.probe_at::text, limits.opens::text, limits.successes::text, limits.forced,
       limits.outcomes::text`

/** What is kept of a limit. */
export interface KeptLimit {
  readonly name: string
  readonly origin: LimitOrigin
  readonly settings: LimitSettings
  readonly adaptive: AdaptiveState | null
  readonly emptyAtMs: number
  readonly notBeforeMs: number
  readonly breaker: Breaker
  /** By the second. */
  readonly outcomes: Readonly<Record<string, Outcomes>>
}

function readLimit(row: Row): KeptLimit {
  const [
    name,
    origin,
    settings,
    adaptive,
    emptyAt,
    notBefore,
    position,
    since,
    probeAt,
    opens,
    successes,
    forced,
    outcomes,
  ] = row
  return {
    name: name!,
    origin: origin as LimitOrigin,
    settings: readJson(settings) as LimitSettings,
    adaptive: readJson(adaptive) as AdaptiveState | null,
    emptyAtMs: Number(emptyAt),
    notBeforeMs: Number(notBefore),
    breaker: {
      position: position as BreakerPosition,
      sinceMs: Number(since),
      probeAtMs: readMs(probeAt),
      opens: Number(opens),
      successes: Number(successes),
      forced: (forced ?? null) as Breaker['forced'],
    },
    outcomes: (readJson(outcomes) ?? {}) as Readonly<Record<string, Outcomes>>,
  }
}

const NOW = statement(
  'flow_now',
  "SELECT (date_part('epoch', coalesce($1::timestamptz, clock_timestamp())) * 1000)::float8::text",
)

/** The store's time. */
export async function nowOf(db: Database, send: Send): Promise<number> {
  const [[now] = []] = await send(NOW, [db.now()])
  return Number(now)
}

// By a function, because it takes a right to write the table, which workers do not have.
const LOCK = statement('lock_limit', `SELECT ${COLUMNS} FROM :schema.lock_limit($1) AS limits`)
/** All of a limit that outcomes go by or change. */
export const STANDING: string = `pg_catalog.hashtextextended(row(limits.settings::text, limits.adaptive::text, limits.position, limits.since,
         limits.probe_at, limits.opens, limits.successes, limits.forced, limits.outcomes::text)::text, 0)`
const LOOK = statement(
  'look_at_limits',
  `
SELECT ${COLUMNS}, (${STANDING})::text, (date_part('epoch', coalesce($2::timestamptz, clock_timestamp())) * 1000)::float8::text
  FROM :schema.limits
 WHERE limits.name = ANY ($1::text[])`,
)
const COUNT = statement(
  'count_limits',
  "SELECT count(*)::text FROM :schema.limits WHERE NOT starts_with(limits.name, 'queue:')",
)
const QUEUES_OF = statement(
  'queues_of_limit',
  'SELECT DISTINCT tracks.queue FROM :schema.limits JOIN :schema.tracks ON tracks.track = ANY (limits.tracks) WHERE limits.name = $1',
)

/** A limit under its lock, or null. */
export async function lockLimit(send: Send, name: string): Promise<KeptLimit | null> {
  const [row] = await send(LOCK, [name])
  return row === undefined ? null : readLimit(row)
}

/** A limit as it stood at a time. */
export interface SeenLimit extends KeptLimit {
  readonly nowMs: number
  /** Another one when something changed. */
  readonly standing: string
}

/** Limits by name, without a lock. */
export async function lookAtLimits(
  db: Database,
  send: Send,
  names: readonly string[],
): Promise<Map<string, SeenLimit>> {
  const rows = await send(LOOK, [arrayOf(names), db.now()])
  return new Map(
    rows.map((row) => {
      const [standing, nowMs] = row.slice(-2)
      return [row[0]!, { ...readLimit(row), standing: standing!, nowMs: Number(nowMs) }]
    }),
  )
}

export type OnReady = (queue: string) => void

/** Wakes the queues whose jobs name a limit. */
export async function wakeUsers(db: Database, name: string, onReady: OnReady): Promise<void> {
  for (const [queue] of await db.send('operate', QUEUES_OF, [name])) onReady(queue!)
}

export interface SetLimit {
  readonly name: string
  readonly settings: LimitSettings
  readonly by: string
  readonly origin: LimitOrigin
}

export async function setLimit(db: Database, asked: SetLimit, onReady: OnReady): Promise<LimitView> {
  const { name, settings, by, origin } = asked
  if (isQueueLimit(name)) throw limitOfQueue(name)
  const isChanged = await db.transaction('operate', async (send) => {
    const known = await lockLimit(send, name)
    if (known === null && Number((await send(COUNT, []))[0]![0]) >= LIMITS_MAX) throw tooManyLimits(name)
    const isKept = known?.origin === 'operator' && origin === 'definition'
    const isSame = known?.origin === origin && JSON.stringify(known.settings) === JSON.stringify(settings)
    if (isKept || isSame) return false
    // What was found out holds on, within the new bounds.
    const adaptive = settings.adaptive === null ? null : (known?.adaptive ?? startingAt(settings.adaptive))
    await send(KEEP_LIMIT, [db.now(), name, ...limitValues(settings, origin, adaptive)])
    const details = { before: settingsOf(known), after: { origin, ...settings } }
    await record(db, send, { actor: by, action: 'set limit', target: name, details })
    return true
  })
  if (isChanged) await wakeUsers(db, name, onReady)
  return (await limits(db, [name]))[0]!
}

/** What was set, for the audit log. */
function settingsOf(limit: KeptLimit | null): unknown {
  return limit === null ? null : { origin: limit.origin, ...limit.settings }
}

const IS_BUSY = statement(
  'is_limit_busy',
  `
WITH used AS MATERIALIZED (
  SELECT coalesce(array_agg(tracks.track), '{}') AS tracks FROM :schema.tracks WHERE $1 = ANY (tracks.limits)
)
SELECT EXISTS (SELECT FROM used JOIN :schema.held ON held.track = ANY (used.tracks))
    OR EXISTS (SELECT FROM used JOIN :schema.running ON running.track = ANY (used.tracks) AND running.track <> 0)
    OR EXISTS (SELECT FROM used JOIN :schema.scheduled ON scheduled.track = ANY (used.tracks))
    OR EXISTS (SELECT FROM used JOIN :schema.blocked ON blocked.track = ANY (used.tracks))
    OR EXISTS (SELECT FROM used JOIN :schema.dead ON dead.track = ANY (used.tracks))
    OR EXISTS (SELECT FROM :schema.schedules
                WHERE EXISTS (SELECT FROM json_array_elements_text(CASE WHEN json_typeof(schedules.settings #> '{flow,limits}') = 'array'
                                                                        THEN schedules.settings #> '{flow,limits}' ELSE '[]' END) AS named (name)
                               WHERE named.name = $1))`,
)
const REMOVE = statement('remove_limit', 'DELETE FROM :schema.limits WHERE limits.name = $1')

export async function removeLimit(db: Database, name: string, by: string): Promise<'removed' | 'busy' | 'missing'> {
  if (isQueueLimit(name)) return 'missing'
  return db.transaction('bulk', async (send) => {
    const known = await lockLimit(send, name)
    if (known === null) return 'missing'
    const [[isBusy] = []] = await send(IS_BUSY, [name])
    if (isBusy === 't') return 'busy'
    await send(REMOVE, [name])
    const details = { before: settingsOf(known), after: null }
    await record(db, send, { actor: by, action: 'remove limit', target: name, details })
    return 'removed'
  })
}

const SHOWN = statement(
  'limits_shown',
  `
SELECT (SELECT count(*) FROM (SELECT FROM :schema.running WHERE running.track = ANY (limits.tracks) AND running.track <> 0 LIMIT 1000000) AS busy)::text,
       (SELECT json_agg(json_build_array(move.at, move.from_position, move.to_position, move.ok, move.failed, move.actor) ORDER BY move.number DESC)
          FROM :schema.breaker_moves AS move WHERE move.limit_name = limits.name)::text,
       ${COLUMNS}
  FROM :schema.limits
 WHERE $1::text[] IS NULL OR limits.name = ANY ($1)
 ORDER BY limits.name
 LIMIT 30000`,
)

/** These limits by name, as shown and with their buckets. Those of queues that bound nothing too. */
export async function limitsOf(
  send: Send,
  names: readonly string[],
  nowMs: number,
): Promise<ReadonlyMap<string, { readonly view: LimitView; readonly emptyAtMs: number }>> {
  const rows = await send(SHOWN, [arrayOf(names)])
  return new Map(
    rows.map((row) => {
      const shown = readShown(row)
      return [shown.limit.name, { view: viewOf(shown, nowMs), emptyAtMs: shown.limit.emptyAtMs }]
    }),
  )
}

/** Limits as shown: all, or those of these names. */
export async function limits(db: Database, names: readonly string[] | null = null): Promise<readonly LimitView[]> {
  const send: Send = (sql, values) => db.send('look', sql, values)
  const nowMs = await nowOf(db, send)
  const rows = await send(SHOWN, [names === null ? null : arrayOf(names)])
  return rows.flatMap((row) => {
    const shown = readShown(row)
    const { limit } = shown
    const { concurrency, rate } = limit.settings
    const isBound = !isQueueLimit(limit.name) || concurrency !== null || rate !== null || limit.notBeforeMs > nowMs
    return isBound ? [viewOf(shown, nowMs)] : []
  })
}

interface ShownLimit {
  readonly limit: KeptLimit
  readonly running: number
  readonly history: BreakerView['history']
}

function readShown([running, moves, ...row]: Row): ShownLimit {
  const history = ((readJson(moves) ?? []) as MoveRow[]).map(([at, from, to, ok, failed, by]) => ({
    ...{ at: new Date(at), from, to, ok, failed, by },
  }))
  return { limit: readLimit(row), running: Number(running), history }
}

type MoveRow = readonly [number, BreakerPosition, BreakerPosition, number, number, string | null]

function viewOf({ limit, running, history }: ShownLimit, nowMs: number): LimitView {
  const { name, settings, origin, emptyAtMs, notBeforeMs } = limit
  const { concurrency, rate, adaptive } = settings
  return {
    name,
    concurrency,
    rate,
    adaptive,
    origin,
    running,
    tokens: rate === null ? null : startsAt(rate, emptyAtMs, nowMs),
    until: notBeforeMs > nowMs ? new Date(notBeforeMs) : null,
    level: adaptive === null || limit.adaptive === null ? null : concurrencyOf(adaptive, limit.adaptive),
    breaker: breakerView(limit, history, nowMs),
  }
}

function breakerView(
  { settings, breaker, outcomes }: KeptLimit,
  history: BreakerView['history'],
  nowMs: number,
): LimitView['breaker'] {
  if (settings.breaker === null && breaker.forced === null) return null
  const { position, sinceMs, probeAtMs, opens, forced } = breaker
  const window = settings.breaker === null ? { ok: 0, failed: 0 } : sumOf(recent(outcomes, settings.breaker, nowMs))
  const probeAt = probeAtMs === null ? null : new Date(probeAtMs)
  return { settings: settings.breaker, position, since: new Date(sinceMs), probeAt, opens, forced, ...window, history }
}

/** The outcomes that count now. */
export function recent(
  outcomes: KeptLimit['outcomes'],
  { withinMs }: BreakerSettings,
  nowMs: number,
): Record<string, Outcomes> {
  const counts = ([second]: readonly [string, Outcomes]) => (Number(second) + 1) * 1_000 > nowMs - withinMs
  return Object.fromEntries(Object.entries(outcomes).filter(counts))
}

/** All of them together. */
export function sumOf(outcomes: Readonly<Record<string, Outcomes>>): Outcomes {
  const sum = { ok: 0, failed: 0 }
  for (const { ok, failed } of Object.values(outcomes)) {
    sum.ok += ok
    sum.failed += failed
  }
  return sum
}

const UNKNOWN = statement(
  'unknown_limit',
  `
SELECT asked.name
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (name, place)
 WHERE NOT starts_with(asked.name, 'type:')
   AND NOT EXISTS (SELECT FROM :schema.limits WHERE limits.name = asked.name)
 ORDER BY asked.place
 LIMIT 1`,
)

/** Raises `limit_unknown` when one of these limits was never set. */
export async function checkLimits(db: Database, what: string, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  const [[unknown] = []] = await db.send('operate', UNKNOWN, [arrayOf(names)])
  if (unknown != null) throw limitUnknown(what, unknown)
}
