// Limits by name: set, removed, shown.

import { adapt, concurrencyOf, startingAt } from '../../core/flow/adaptive.js'
import {
  afterOutcomes,
  type BreakerSettings,
  CLOSED,
  forcedTo,
  isForcedTo,
  judgedOutcomes,
  type Outcomes,
  probesOf,
} from '../../core/flow/breaker.js'
import { isQueueLimit, queueLimitName } from '../../core/flow/job-flow.js'
import { draw, FULL, startsAt } from '../../core/flow/rate.js'
import { limitOfQueue, tooManyLimits } from '../../core/flow/refusals.js'
import { LIMITS_MAX, type LimitSettings, NO_LIMIT, type QueueFlow } from '../../core/flow/settings.js'
import type { BreakerMove, HoldOff, LimitOrigin, LimitView, OutcomeReport } from '../../core/flow/views.js'
import { writeLine } from './audit.js'
import { moveBreaker } from './breakers.js'
import { copyOf } from './copy.js'
import { groupEntry } from './groups.js'
import { groupOf, groupSettings, limitsOf, offerAll } from './held.js'
import type { Job, KeptLimit, Memory } from './memory.js'
import { compareText } from './ordered.js'

interface LimitAct {
  readonly by: string
  readonly origin: LimitOrigin
  readonly nowMs: number
}

export function setLimit(memory: Memory, name: string, settings: LimitSettings, act: LimitAct): LimitView {
  const { by, origin, nowMs } = act
  if (isQueueLimit(name)) throw limitOfQueue(name)
  const known = memory.limits.get(name)
  if (known === undefined && namedLimits(memory).length >= LIMITS_MAX) throw tooManyLimits(name)
  const isKept = known?.origin === 'operator' && origin === 'definition'
  const isSame = known?.origin === origin && JSON.stringify(known.settings) === JSON.stringify(settings)
  if (!isKept && !isSame) {
    const details = {
      before: known === undefined ? null : { origin: known.origin, ...known.settings },
      after: { origin, ...settings },
    }
    keep(memory, name, settings, { origin, nowMs })
    writeLine(memory, { actor: by, action: 'set limit', target: name, details }, nowMs)
    wakeUsers(memory, name)
  }
  return viewOf(memory, name, memory.limits.get(name)!, nowMs)
}

function keep(memory: Memory, name: string, settings: LimitSettings, { origin, nowMs }: Omit<LimitAct, 'by'>): void {
  const { adaptive } = settings
  const known = memory.limits.get(name)
  const outcomes = new Map<number, Outcomes>()
  const fresh = { emptyAtMs: FULL, notBeforeMs: 0, breaker: CLOSED, outcomes, history: [] }
  // What was found out holds on, within the new bounds.
  const found = adaptive === null ? null : (known?.adaptive ?? startingAt(adaptive))
  const limit = { ...fresh, ...known, settings: copyOf(settings), origin, adaptive: found }
  if (settings.breaker === null && limit.breaker.forced === null) {
    moveBreaker(limit, CLOSED, { ok: 0, failed: 0, by: null, nowMs })
  }
  memory.limits.set(name, limit)
}

function wakeUsers(memory: Memory, name: string): void {
  for (const [queue, tracks] of memory.tracks) {
    if (tracks.some(({ limits }) => limits.includes(name))) offerAll(memory, queue)
  }
}

/** Keeps the limit of a queue as its settings say. */
export function setQueueLimit(memory: Memory, queue: string, flow: QueueFlow | undefined, nowMs: number): void {
  const name = queueLimitName(queue)
  const settings = { ...NO_LIMIT, concurrency: flow?.concurrency ?? null, rate: flow?.rate ?? null }
  if (flow === undefined) memory.limits.delete(name)
  else keep(memory, name, settings, { origin: 'operator', nowMs })
}

/** How many jobs of a limit may run now; null for any number. */
export function concurrencyNow({ settings, adaptive, breaker }: KeptLimit): number | null {
  const bounds = [
    settings.adaptive === null ? settings.concurrency : concurrencyOf(settings.adaptive, adaptive!),
    settings.breaker === null ? null : probesOf(settings.breaker, breaker),
  ].filter((bound) => bound !== null)
  return bounds.length === 0 ? null : Math.min(...bounds)
}

export function observe(memory: Memory, reports: readonly OutcomeReport[], nowMs: number): BreakerMove[] {
  return reports.flatMap((report) => {
    const limit = memory.limits.get(report.limit)
    if (limit === undefined) return []
    const { adaptive, breaker } = limit.settings
    if (adaptive !== null) {
      const before = concurrencyNow(limit)!
      limit.adaptive = adapt(adaptive, limit.adaptive!, { ...report, nowMs })
      if (concurrencyNow(limit)! > before) wakeUsers(memory, report.limit)
    }
    return breaker === null ? [] : judge(memory, limit, breaker, report, nowMs)
  })
}

function judge(
  memory: Memory,
  limit: KeptLimit,
  settings: BreakerSettings,
  { limit: name, ok, failed }: OutcomeReport,
  nowMs: number,
): BreakerMove[] {
  const second = Math.floor(nowMs / 1_000)
  const known = limit.outcomes.get(second) ?? { ok: 0, failed: 0 }
  limit.outcomes.set(second, { ok: known.ok + ok, failed: known.failed + failed })
  dropOld(limit, settings, nowMs)
  const window = judgedOutcomes(settings, limit.outcomes)
  const { position: from } = limit.breaker
  const after = afterOutcomes(settings, limit.breaker, { window, fresh: { ok, failed }, nowMs })
  moveBreaker(limit, after, { ...window, by: null, nowMs })
  const { position: to, probeAtMs } = limit.breaker
  if (from === to) return []
  limit.outcomes.clear()
  if (to === 'closed') wakeUsers(memory, name)
  return [{ limit: name, from, to, ...window, probeAtMs }]
}

/** The sum of all outcomes that count now. */
function windowOf(limit: KeptLimit, settings: BreakerSettings, nowMs: number): Outcomes {
  dropOld(limit, settings, nowMs)
  const window = { ok: 0, failed: 0 }
  for (const { ok, failed } of limit.outcomes.values()) {
    window.ok += ok
    window.failed += failed
  }
  return window
}

function dropOld({ outcomes }: KeptLimit, { withinMs }: BreakerSettings, nowMs: number): void {
  for (const second of outcomes.keys()) if ((second + 1) * 1_000 <= nowMs - withinMs) outcomes.delete(second)
}

export function forceBreaker(
  memory: Memory,
  name: string,
  forced: 'open' | 'closed' | null,
  { by, nowMs }: { readonly by: string; readonly nowMs: number },
): boolean {
  const limit = memory.limits.get(name)
  if (limit === undefined) return false
  if (isForcedTo(limit.breaker, forced)) return true
  const stateOf = ({ breaker }: KeptLimit) => ({ position: breaker.position, forced: breaker.forced })
  const before = stateOf(limit)
  const { breaker } = limit.settings
  const window = breaker === null ? { ok: 0, failed: 0 } : windowOf(limit, breaker, nowMs)
  moveBreaker(limit, forcedTo(forced, nowMs), { ...window, by, nowMs })
  limit.outcomes.clear()
  const details = { before, after: stateOf(limit) }
  writeLine(memory, { actor: by, action: 'force breaker', target: name, details }, nowMs)
  wakeUsers(memory, name)
  return true
}

/** Lets nothing of a scope start before a time. */
export function holdOff(memory: Memory, job: Job, hold: HoldOff, nowMs: number): void {
  const { queue } = job.facts
  const untilMs = nowMs + hold.afterMs
  if (hold.scope === 'group') {
    const entry = groupEntry(memory, queue, groupOf(job))
    entry.notBeforeMs = Math.max(entry.notBeforeMs, untilMs)
    return
  }
  const name = hold.scope === 'queue' ? queueLimitName(queue) : hold.limit
  // A queue that had no flow control has it from now on.
  if (hold.scope === 'queue' && !memory.limits.has(name)) keep(memory, name, NO_LIMIT, { origin: 'operator', nowMs })
  const limit = memory.limits.get(name)
  if (limit !== undefined) limit.notBeforeMs = Math.max(limit.notBeforeMs, untilMs)
}

/** Takes from the rates that count cost what an attempt cost beyond what its start took, or gives it back. */
export function settleCost(memory: Memory, job: Job, spent: number, nowMs: number): void {
  const { queue, flow } = job.facts
  const more = spent - (flow?.cost ?? 1)
  for (const name of limitsOf(job)) {
    const limit = memory.limits.get(name)
    const rate = limit?.settings.rate ?? null
    if (rate?.counts === 'cost') limit!.emptyAtMs = draw(rate, limit!.emptyAtMs, more, nowMs)
  }
  const group = groupOf(job)
  const rate = memory.groups.get(queue)?.get(group)?.override?.rate ?? groupSettings(memory, queue).rate
  if (group === '' || rate?.counts !== 'cost') return
  // A group that nothing is known of has a full bucket.
  const entry = groupEntry(memory, queue, group)
  entry.emptyAtMs = draw(rate, entry.emptyAtMs, more, nowMs)
}

export function removeLimit(memory: Memory, name: string, by: string, nowMs: number): 'removed' | 'busy' | 'missing' {
  const known = memory.limits.get(name)
  if (isQueueLimit(name) || known === undefined) return 'missing'
  const isOver = (state: string) => state === 'succeeded' || state === 'cancelled'
  const inJobs = [...memory.jobs.values()].some(
    ({ facts, state }) => facts.flow?.limits.includes(name) && !isOver(state),
  )
  const inSchedules = [...memory.schedules.values()].some(({ schedule }) => schedule.flow?.limits.includes(name))
  if (inJobs || inSchedules) return 'busy'
  memory.limits.delete(name)
  const details = { before: { origin: known.origin, ...known.settings }, after: null }
  writeLine(memory, { actor: by, action: 'remove limit', target: name, details }, nowMs)
  return 'removed'
}

export function limits(memory: Memory, nowMs: number): LimitView[] {
  const isBound = ([name, { settings, notBeforeMs }]: readonly [string, KeptLimit]) =>
    !isQueueLimit(name) || settings.concurrency !== null || settings.rate !== null || notBeforeMs > nowMs
  return [...memory.limits]
    .filter(isBound)
    .map(([name, limit]) => viewOf(memory, name, limit, nowMs))
    .sort((one, other) => compareText(one.name, other.name))
}

function namedLimits(memory: Memory): readonly string[] {
  return [...memory.limits.keys()].filter((name) => !isQueueLimit(name))
}

/** A limit as shown. */
export function viewOf(memory: Memory, name: string, limit: KeptLimit, nowMs: number): LimitView {
  const { settings, origin, emptyAtMs, notBeforeMs } = limit
  const { concurrency, rate, adaptive } = settings
  return {
    name,
    concurrency,
    rate,
    adaptive,
    origin,
    running: memory.running.values.filter((job) => limitsOf(job).includes(name)).length,
    tokens: rate === null ? null : startsAt(rate, emptyAtMs, nowMs),
    until: notBeforeMs > nowMs ? new Date(notBeforeMs) : null,
    level: adaptive === null ? null : concurrencyOf(adaptive, limit.adaptive!),
    breaker: breakerView(limit, nowMs),
  }
}

function breakerView(limit: KeptLimit, nowMs: number): LimitView['breaker'] {
  const { settings, breaker, history } = limit
  if (settings.breaker === null && breaker.forced === null) return null
  const { position, sinceMs, probeAtMs, opens, forced } = breaker
  const window = settings.breaker === null ? { ok: 0, failed: 0 } : windowOf(limit, settings.breaker, nowMs)
  const probeAt = probeAtMs === null ? null : new Date(probeAtMs)
  return { settings: settings.breaker, position, since: new Date(sinceMs), probeAt, opens, forced, ...window, history }
}
