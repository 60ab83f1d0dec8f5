// What breakers and adaptive concurrency find out, and breakers that an operator holds. ◄── store.ts

import { adapt, concurrencyOf, startingAt } from '../../core/flow/adaptive.js'
import { afterOutcomes, type Breaker, forcedTo, isForcedTo, judgedOutcomes } from '../../core/flow/breaker.js'
import type { BreakerMove, OutcomeReport } from '../../core/flow/views.js'
import { record } from './audit.js'
import type { Database, Send } from './database.js'
import {
  lockLimit,
  lookAtLimits,
  nowOf,
  type OnReady,
  recent,
  type SeenLimit,
  STANDING,
  sumOf,
  wakeUsers,
} from './limits.js'
import { statement } from './statement.js'

// A worker that is stopped within a transaction would keep its lock, and nobody could claim from a queue that uses the limit. So it looks
// without a lock, decides, and writes by one statement if nothing has changed. By functions, which keep a move of the breaker with it and
// check what a worker asks for.
const KEEP = statement(
  'keep_outcomes',
  `
WITH same AS MATERIALIZED (
  SELECT limits.name FROM :schema.lock_limit($1) AS limits WHERE ${STANDING} = $2::bigint
)
SELECT CASE WHEN $3::json IS NOT NULL THEN :schema.keep_level(same.name, $3::json, $4::integer)::text END,
       CASE WHEN $5::text IS NOT NULL
            THEN :schema.keep_breaker(same.name, $5::text, $6::float8, $7::float8, $8::integer, $9::integer, $10::json, $11::bigint,
                                      $12::bigint)::text END
  FROM same`,
)
/** After this many tries that lost a race, it takes the lock. */
const TRIES = 4

/** Adds what became of jobs to limits with a breaker or adaptive concurrency. */
export async function observe(
  db: Database,
  reports: readonly OutcomeReport[],
  onReady: OnReady,
): Promise<readonly BreakerMove[]> {
  const woken = new Set<string>()
  const moves: BreakerMove[] = []
  const send: Send = (asked, values) => db.send('settle', asked, values)
  const seen = await lookAtLimits(db, send, [...new Set(reports.map(({ limit }) => limit))])
  for (const report of reports) {
    const first = seen.get(report.limit)
    // Most limits have neither.
    if (first === undefined || (first.settings.breaker === null && first.settings.adaptive === null)) continue
    const found = await add(db, send, first, report)
    if (found?.isRaised || found?.move?.to === 'closed') woken.add(report.limit)
    if (found?.move) moves.push(found.move)
  }
  for (const name of woken) await wakeUsers(db, name, onReady)
  return moves
}

/** What a report did to a limit. */
interface Change {
  /** More may run than before. */
  readonly isRaised: boolean
  readonly move: BreakerMove | null
}

async function add(db: Database, send: Send, first: SeenLimit, report: OutcomeReport): Promise<Change | null> {
  let limit: SeenLimit | undefined = first
  for (let tries = 0; tries < TRIES && limit !== undefined; tries++) {
    const change = await keep(send, limit, report)
    if (change !== null) return change
    limit = (await lookAtLimits(db, send, [report.limit])).get(report.limit)
  }
  if (limit === undefined) return null
  return db.transaction('settle', async (sendLocked) => {
    if ((await lockLimit(sendLocked, report.limit)) === null) return null
    const locked = (await lookAtLimits(db, sendLocked, [report.limit])).get(report.limit)!
    return keep(sendLocked, locked, report)
  })
}

/** Writes what a report changes; null when the limit has changed meanwhile. */
async function keep(send: Send, limit: SeenLimit, report: OutcomeReport): Promise<Change | null> {
  const level = adapted(limit, report)
  const judged = judge(limit, report)
  const rows = await send(KEEP, [limit.name, limit.standing, ...level.values, ...judged.values])
  return rows.length === 0 ? null : { isRaised: level.isRaised, move: judged.move }
}

/** Moves an adaptive concurrency. */
function adapted(
  limit: SeenLimit,
  report: OutcomeReport,
): { readonly values: readonly (string | number | null)[]; readonly isRaised: boolean } {
  const { adaptive } = limit.settings
  if (adaptive === null) return { values: [null, null], isRaised: false }
  const before = limit.adaptive ?? startingAt(adaptive)
  const after = adapt(adaptive, before, { ...report, nowMs: limit.nowMs })
  const concurrency = concurrencyOf(adaptive, after)
  return { values: [JSON.stringify(after), concurrency], isRaised: concurrency > concurrencyOf(adaptive, before) }
}

function judge(
  limit: SeenLimit,
  report: OutcomeReport,
): { readonly values: readonly (string | number | null)[]; readonly move: BreakerMove | null } {
  const { ok, failed } = report
  const { nowMs } = limit
  const settings = limit.settings.breaker
  if (settings === null) return { values: new Array<null>(8).fill(null), move: null }
  const second = String(Math.floor(nowMs / 1_000))
  const outcomes = recent(limit.outcomes, settings, nowMs)
  const known = outcomes[second] ?? { ok: 0, failed: 0 }
  outcomes[second] = { ok: known.ok + ok, failed: known.failed + failed }
  const bySecond = Object.entries(outcomes).map(([at, counts]) => [Number(at), counts] as const)
  const window = judgedOutcomes(settings, bySecond)
  const { position: from } = limit.breaker
  const breaker = afterOutcomes(settings, limit.breaker, { window, fresh: { ok, failed }, nowMs })
  const { position: to, sinceMs, probeAtMs, opens, successes } = breaker
  const kept = JSON.stringify(from === to ? outcomes : {})
  const move = from === to ? null : { limit: limit.name, from, to, ...window, probeAtMs }
  return { values: [to, sinceMs, probeAtMs, opens, successes, kept, window.ok, window.failed], move }
}

const FORCE = statement(
  'force_breaker',
  `
WITH moved AS (
  UPDATE :schema.limits
     SET forced = $2, position = $3, since = $4::float8, probe_at = NULL, opens = 0, successes = 0, outcomes = '{}'
   WHERE limits.name = $1
  RETURNING limits.name
)
SELECT :schema.note_breaker(moved.name, $4, $5, $3, $6::bigint, $7::bigint, $8)::text FROM moved`,
)

export async function forceBreaker(
  db: Database,
  { name, forced, by }: { readonly name: string; readonly forced: Breaker['forced']; readonly by: string },
  onReady: OnReady,
): Promise<boolean> {
  const found = await db.transaction('operate', async (send) => {
    const limit = await lockLimit(send, name)
    if (limit === null) return 'missing'
    if (isForcedTo(limit.breaker, forced)) return 'same'
    const nowMs = await nowOf(db, send)
    const { settings, breaker, outcomes } = limit
    const { ok, failed } = sumOf(settings.breaker === null ? {} : recent(outcomes, settings.breaker, nowMs))
    const { position, sinceMs } = forcedTo(forced, nowMs)
    await send(FORCE, [name, forced, position, sinceMs, breaker.position, ok, failed, by])
    const details = {
      before: { position: breaker.position, forced: breaker.forced },
      after: { position, forced },
    }
    await record(db, send, { actor: by, action: 'force breaker', target: name, details })
    return 'moved'
  })
  if (found === 'moved') await wakeUsers(db, name, onReady)
  return found !== 'missing'
}
