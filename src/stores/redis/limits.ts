// Limits by name: set, removed, shown, and moved by what workers report. All changes go through `change`, which computes in Node with the
// rules of core/flow and writes only if nothing else has changed the limit meanwhile. What claims ask of limits is in limit-claims.ts.

import { HoldfastError } from '../../core/errors.js'
import { adapt, startingAt } from '../../core/flow/adaptive.js'
import {
  afterOutcomes,
  type Breaker,
  CLOSED,
  forcedTo,
  isForcedTo,
  judgedOutcomes,
  type Outcomes,
} from '../../core/flow/breaker.js'
import { isQueueLimit } from '../../core/flow/job-flow.js'
import { limitOfQueue, tooManyLimits } from '../../core/flow/refusals.js'
import { LIMITS_MAX, type LimitSettings } from '../../core/flow/settings.js'
import type { BreakerMove, LimitOrigin, LimitView, OutcomeReport } from '../../core/flow/views.js'
import {
  concurrencyNow,
  currentOutcomes,
  type KeptLimit,
  LIMIT_VALUES,
  readLimit,
  viewOf,
  windowOf,
  writeBreaker,
  writeMove,
} from './limit-row.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * setLimit, moveLimit: ARGV name, version it must have, settings, origin, breaker, adaptive or '', level or '', '1' to wake, move or '', who,
 *   action or '', details, most limits; then '-' to clear the outcomes, or seconds and their outcomes ('' to drop one). Answers 'kept' or 'changed'.
 * removeLimit: ARGV name, who; answers with the word.
 * limitNames: answers with all names. limits: ARGV names; answers with eleven values (limit-row.ts) for each that is there.
 */
export const LIMITS: string = lua`
local function keepLimit(work, args)
  local name, version, settings, origin, breaker, adaptive, level, wakes, move, by, action, details = unpack(args, 3, 14)
  local key = 'limit:' .. name
  local known = redis.call('HGET', work.b .. key, 'version') or ''
  if known ~= version then return 'changed' end
  if known == '' and redis.call('ZCARD', work.b .. 'limits') >= tonumber(args[15]) then error({ err = 'HFLIMITS' }) end
  limits.keep(work, name, settings, origin)
  setField(work, key, 'breaker', breaker)
  setField(work, key, 'adaptive', adaptive ~= '' and adaptive)
  setField(work, key, 'level', level ~= '' and level)
  if move ~= '' then moved(work, name, move) end
  if action ~= '' then audit(work, by, action, '', name, details) end
  if args[16] == '-' then later(work, 'DEL', 'outcomes:' .. name) end
  for i = 16, #args - 1, 2 do setField(work, 'outcomes:' .. name, args[i], args[i + 1] ~= '' and args[i + 1]) end
  if wakes == '1' then limits.wakeUsers(work, name) end
  return 'kept'
end

writes('setLimit', {}, keepLimit)
writes('moveLimit', { 'allow-oom' }, keepLimit)

local function isLimitUsed(work, name)
  for _, user in ipairs(redis.call('ZRANGE', work.b .. 'users:' .. name, 0, -1)) do
    local queue, track = string.match(user, '^(%S+) (.*)$')
    if tonumber(redis.call('HGET', work.b .. 'uses:' .. queue, track) or 0) > 0 then return true end
  end
  for _, schedule in ipairs(redis.call('ZRANGE', work.b .. 'schedules', 0, -1)) do
    local flow = readJson(redis.call('HGET', work.b .. 'sched:' .. schedule, 'json')).flow
    for _, used in ipairs(flow and flow.limits or {}) do
      if used == name then return true end
    end
  end
  return false
end

writes('removeLimit', { 'allow-oom' }, function(work, args)
  local name, by = args[3], args[4]
  local known = redis.call('HMGET', work.b .. 'limit:' .. name, 'settings', 'origin')
  if not known[1] then return 'missing' end
  if isLimitUsed(work, name) then return 'busy' end
  limits.drop(work, name)
  local before = '{"origin":"' .. known[2] .. '",' .. string.sub(known[1], 2)
  audit(work, by, 'remove limit', '', name, '{"before":' .. before .. ',"after":null}')
  return 'removed'
end)

reads('limitNames', function(work)
  local names = redis.call('ZRANGE', work.b .. 'limits', 0, -1)
  for _, queue in ipairs(redis.call('ZRANGE', work.b .. 'flowing', 0, -1)) do names[#names + 1] = 'queue:' .. queue end
  return names
end)

local function limitValues(work, name)
  local key = work.b .. 'limit:' .. name
  local values = redis.call('HMGET', key, 'version', 'settings', 'origin', 'empty', 'until', 'breaker', 'adaptive')
  if not values[1] then return nil end
  for i = 1, 7 do values[i] = values[i] or '' end
  table.insert(values, 1, name)
  values[9] = text(limits.count(work, name))
  values[10] = redis.call('HGETALL', work.b .. 'outcomes:' .. name)
  values[11] = redis.call('LRANGE', work.b .. 'moves:' .. name, 0, -1)
  return values
end

reads('limits', function(work, args)
  local answer = {}
  for i = 3, #args do
    for _, value in ipairs(limitValues(work, args[i]) or {}) do answer[#answer + 1] = value end
  end
  return answer
end)
`

const PORTION = 200
/** How often a change is computed anew because others changed the limit meanwhile. Each time one of them has made progress. */
const TRIES_MAX = 200

export interface SeenLimits {
  readonly limits: readonly KeptLimit[]
  readonly nowMs: number
}

/** Limits by name, those that are there. */
export async function limitsNamed(redis: Redis, names: readonly string[]): Promise<SeenLimits> {
  const found: KeptLimit[] = []
  let latestMs = 0
  for (let at = 0; at === 0 || at < names.length; at += PORTION) {
    const { value, nowMs } = await redis.read<unknown[]>('look', 'limits', names.slice(at, at + PORTION))
    for (let from = 0; from < value.length; from += LIMIT_VALUES)
      found.push(readLimit(value.slice(from, from + LIMIT_VALUES)))
    latestMs = nowMs
  }
  return { limits: found, nowMs: latestMs }
}

export async function limits(redis: Redis): Promise<readonly LimitView[]> {
  const { value: names } = await redis.read<string[]>('look', 'limitNames', [])
  const { limits: found, nowMs } = await limitsNamed(redis, [...new Set(names)])
  return found
    .filter(({ name, settings, notBeforeMs }) => {
      return !isQueueLimit(name) || settings.concurrency !== null || settings.rate !== null || notBeforeMs > nowMs
    })
    .map((limit) => viewOf(limit, nowMs))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** What a change of a limit writes. */
interface Change {
  readonly settings: LimitSettings
  readonly origin: LimitOrigin
  readonly breaker: Breaker
  readonly adaptive: KeptLimit['adaptive']
  readonly wakes: boolean
  /** What led to a move of the breaker; null where it does not move. */
  readonly move: (Outcomes & { readonly by: string | null }) | null
  /** Outcomes by the second that are written, null for those that go; 'clear' drops all. */
  readonly outcomes: ReadonlyMap<number, Outcomes | null> | 'clear'
  readonly line?: { readonly by: string; readonly action: string; readonly details: unknown }
}

/** Changes a limit by what is there. The step answers null when there is nothing to do. Returns whether something was. */
async function change(
  redis: Redis,
  name: string,
  step: (known: KeptLimit | undefined, nowMs: number) => Change | null,
  { isSetting, most = LIMITS_MAX }: { readonly isSetting: boolean; readonly most?: number },
): Promise<boolean> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const { limits: found, nowMs } = await limitsNamed(redis, [name])
    const known = found[0]
    const next = step(known, nowMs)
    if (next === null) return false
    const call = isSetting ? 'setLimit' : 'moveLimit'
    const { value } = await redis.write<string>('operate', call, changeArgs(name, known, next, most))
    if (value === 'kept') return true
  }
  throw new HoldfastError(
    'store_unavailable',
    `limit "${name}" was changed by other processes ${TRIES_MAX} times while this one tried: try again`,
    { retryable: true },
  )
}

function changeArgs(name: string, known: KeptLimit | undefined, next: Change, most: number): (string | number)[] {
  const { settings, origin, breaker, adaptive, wakes, outcomes, move, line } = next
  const before = known?.breaker ?? CLOSED
  const isMove = move !== null && (before.position !== breaker.position || before.forced !== breaker.forced)
  const level = settings.adaptive === null || adaptive === null ? '' : String(adaptive.level)
  const seconds =
    outcomes === 'clear'
      ? ['-']
      : [...outcomes].flatMap(([second, each]) => [second, each === null ? '' : `${each.ok} ${each.failed}`])
  return [
    ...[name, known?.version ?? '', JSON.stringify(settings), origin, writeBreaker(breaker)],
    ...[adaptive === null ? '' : JSON.stringify(adaptive), level, wakes ? '1' : ''],
    isMove ? writeMove(before.position, breaker.position, move, move.by) : '',
    ...[line?.by ?? '', line?.action ?? '', line === undefined ? '' : JSON.stringify(line.details), most],
    ...seconds,
  ]
}

export async function setLimit(
  redis: Redis,
  name: string,
  settings: LimitSettings,
  { by, origin, most }: { readonly by: string; readonly origin: LimitOrigin; readonly most?: number },
): Promise<LimitView> {
  if (isQueueLimit(name)) throw limitOfQueue(name)
  const step = (known: KeptLimit | undefined): Change | null => {
    const isKept = known?.origin === 'operator' && origin === 'definition'
    const isSame = known?.origin === origin && JSON.stringify(known.settings) === JSON.stringify(settings)
    if (isKept || isSame) return null
    const before = known === undefined ? null : { origin: known.origin, ...known.settings }
    const breaker = known?.breaker ?? CLOSED
    // What was found out holds on, within the new bounds.
    const adaptive = settings.adaptive === null ? null : (known?.adaptive ?? startingAt(settings.adaptive))
    return {
      ...{ settings, origin, adaptive, wakes: true, outcomes: new Map() },
      breaker: settings.breaker === null && breaker.forced === null ? CLOSED : breaker,
      move: { ok: 0, failed: 0, by: null },
      line: { by, action: 'set limit', details: { before, after: { origin, ...settings } } },
    }
  }
  const how = { isSetting: true, ...(most === undefined ? {} : { most }) }
  await change(redis, name, step, how).catch((error: unknown) => {
    throw redis.refusal(error) === 'HFLIMITS' ? tooManyLimits(name) : error
  })
  const { limits: found, nowMs } = await limitsNamed(redis, [name])
  if (found[0] === undefined) {
    throw new HoldfastError('store_unavailable', `limit "${name}" was removed while it was set: set it again`, {
      retryable: true,
    })
  }
  return viewOf(found[0], nowMs)
}

export async function removeLimit(redis: Redis, name: string, by: string): Promise<'removed' | 'busy' | 'missing'> {
  if (isQueueLimit(name)) return 'missing'
  return (await redis.write<'removed' | 'busy' | 'missing'>('operate', 'removeLimit', [name, by])).value
}

export async function forceBreaker(
  redis: Redis,
  name: string,
  forced: Breaker['forced'],
  by: string,
): Promise<boolean> {
  let isKnown = false
  await change(
    redis,
    name,
    (known, nowMs) => {
      isKnown = known !== undefined
      if (known === undefined || isForcedTo(known.breaker, forced)) return null
      const breaker = forcedTo(forced, nowMs)
      const stateOf = (each: Breaker) => ({ position: each.position, forced: each.forced })
      const details = { before: stateOf(known.breaker), after: stateOf(breaker) }
      return {
        ...{ settings: known.settings, origin: known.origin, adaptive: known.adaptive, breaker },
        ...{ wakes: true, outcomes: 'clear', move: { ...windowOf(known, nowMs), by } },
        line: { by, action: 'force breaker', details },
      }
    },
    { isSetting: false },
  )
  return isKnown
}

export async function observe(
  redis: Redis,
  reports: readonly OutcomeReport[],
  onWake: (limit: string) => void = () => {},
): Promise<readonly BreakerMove[]> {
  const moves: BreakerMove[] = []
  for (const report of reports) {
    let move: BreakerMove | null = null
    let wakes = false
    const isChanged = await change(
      redis,
      report.limit,
      (known, nowMs) => {
        move = null
        if (known === undefined) return null
        const [next, moved] = observed(known, report, nowMs)
        move = moved
        wakes = next?.wakes ?? false
        return next
      },
      { isSetting: false },
    )
    if (isChanged && wakes) onWake(report.limit)
    if (move !== null) moves.push(move)
  }
  return moves
}

/** A limit after a report, and the move that its breaker made. */
function observed(known: KeptLimit, report: OutcomeReport, nowMs: number): [Change | null, BreakerMove | null] {
  const { settings, origin } = known
  if (settings.adaptive === null && settings.breaker === null) return [null, null]
  const before = concurrencyNow(known)
  const adaptive =
    settings.adaptive === null ? known.adaptive : adapt(settings.adaptive, known.adaptive!, { ...report, nowMs })
  const grows = settings.adaptive !== null && concurrencyNow({ ...known, adaptive })! > before!
  const kept = { settings, origin, adaptive }
  if (settings.breaker === null) {
    return [{ ...kept, breaker: known.breaker, wakes: grows, move: null, outcomes: new Map() }, null]
  }
  const second = Math.floor(nowMs / 1_000)
  const { ok, failed } = report
  const current = currentOutcomes(known, settings.breaker, nowMs)
  const sum = current.get(second) ?? { ok: 0, failed: 0 }
  current.set(second, { ok: sum.ok + ok, failed: sum.failed + failed })
  const window = judgedOutcomes(settings.breaker, current)
  const breaker = afterOutcomes(settings.breaker, known.breaker, { window, fresh: { ok, failed }, nowMs })
  const { position: from } = known.breaker
  const { position: to, probeAtMs } = breaker
  const hasMoved = from !== to
  const gone = [...known.outcomes.keys()].filter((each) => !current.has(each)).map((each) => [each, null] as const)
  const next: Change = {
    ...{ ...kept, breaker, wakes: grows || (hasMoved && to === 'closed'), move: { ...window, by: null } },
    outcomes: hasMoved ? 'clear' : new Map<number, Outcomes | null>([...gone, [second, current.get(second)!]]),
  }
  return [next, hasMoved ? { limit: report.limit, from, to, ...window, probeAtMs } : null]
}
