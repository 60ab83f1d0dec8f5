// A limit as its keys have it, and as it is shown. limit:<name> has its settings, who set it, when its bucket would be empty, until when
// nothing starts, its breaker as "<position> <since> <probe> <opens> <successes> <forced>", and the level that an adaptive one has come to.
// slots:<name> has the running jobs that count in it. outcomes:<name> has "<ok> <failed>" by the second, moves:<name> how its breaker moved.

import { type AdaptiveState, concurrencyOf } from '../../core/flow/adaptive.js'
import {
  type Breaker,
  type BreakerPosition,
  type BreakerSettings,
  CLOSED,
  type Outcomes,
  probesOf,
} from '../../core/flow/breaker.js'
import { FULL, startsAt } from '../../core/flow/rate.js'
import type { LimitSettings } from '../../core/flow/settings.js'
import type { BreakerView, LimitOrigin, LimitView } from '../../core/flow/views.js'

/** What is kept of a limit. */
export interface KeptLimit {
  readonly name: string
  /** Grows with each change of what `change` (limits.ts) writes; '' for a limit that is not there. */
  readonly version: string
  readonly settings: LimitSettings
  readonly origin: LimitOrigin
  readonly emptyAtMs: number
  readonly notBeforeMs: number
  readonly breaker: Breaker
  readonly adaptive: AdaptiveState | null
  readonly running: number
  readonly outcomes: ReadonlyMap<number, Outcomes>
  readonly history: BreakerView['history']
}

/** How many values a limit is read as. */
export const LIMIT_VALUES = 11

export function readLimit(values: readonly unknown[]): KeptLimit {
  const [name, version, settings, origin, empty, until, breaker, adaptive, running, outcomes, moves] =
    values as readonly [...[string, string, string, string, string, string, string, string, string, string[], string[]]]
  return {
    ...{ name, version, settings: JSON.parse(settings), origin: origin as LimitOrigin },
    emptyAtMs: empty === '' ? FULL : Number(empty),
    notBeforeMs: until === '' ? 0 : Number(until),
    breaker: breaker === '' ? CLOSED : readBreaker(breaker),
    adaptive: adaptive === '' ? null : JSON.parse(adaptive),
    running: Number(running),
    outcomes: readOutcomes(outcomes),
    history: moves.map(readMove),
  }
}

function readBreaker(text: string): Breaker {
  const [position, since, probeAt, opens, successes, forced] = text.split(' ')
  return {
    position: position as BreakerPosition,
    sinceMs: Number(since),
    probeAtMs: probeAt === '-' ? null : Number(probeAt),
    opens: Number(opens),
    successes: Number(successes),
    forced: forced === '-' ? null : (forced as Breaker['forced']),
  }
}

export function writeBreaker({ position, sinceMs, probeAtMs, opens, successes, forced }: Breaker): string {
  return `${position} ${sinceMs} ${probeAtMs ?? '-'} ${opens} ${successes} ${forced ?? '-'}`
}

function readOutcomes(fields: readonly string[]): Map<number, Outcomes> {
  const outcomes = new Map<number, Outcomes>()
  for (let at = 0; at < fields.length; at += 2) {
    const [ok, failed] = fields[at + 1]!.split(' ').map(Number) as [number, number]
    outcomes.set(Number(fields[at]), { ok, failed })
  }
  return outcomes
}

/** A move is "<at> <from> <to> <ok> <failed> <by>". */
function readMove(text: string): BreakerView['history'][number] {
  const [at, from, to, ok, failed, ...by] = text.split(' ')
  const actor = by.join(' ')
  return {
    at: new Date(Number(at)),
    from: from as BreakerPosition,
    to: to as BreakerPosition,
    ok: Number(ok),
    failed: Number(failed),
    by: actor === '-' ? null : actor.slice(1),
  }
}

/** The move as a text, without the time, which the function adds. */
export function writeMove(
  from: BreakerPosition,
  to: BreakerPosition,
  { ok, failed }: Outcomes,
  by: string | null,
): string {
  return `${from} ${to} ${ok} ${failed} ${by === null ? '-' : `=${by}`}`
}

/** How many jobs of a limit may run now; null for any number. */
export function concurrencyNow({ settings, adaptive, breaker }: KeptLimit): number | null {
  const bounds = [
    settings.adaptive === null ? settings.concurrency : concurrencyOf(settings.adaptive, adaptive!),
    settings.breaker === null ? null : probesOf(settings.breaker, breaker),
  ].filter((bound) => bound !== null)
  return bounds.length === 0 ? null : Math.min(...bounds)
}

/** The outcomes that count now. */
export function currentOutcomes(
  { outcomes }: KeptLimit,
  { withinMs }: BreakerSettings,
  nowMs: number,
): Map<number, Outcomes> {
  return new Map([...outcomes].filter(([second]) => (second + 1) * 1_000 > nowMs - withinMs))
}

/** The sum of all outcomes that count now. */
export function windowOf(limit: KeptLimit, nowMs: number): Outcomes {
  const { breaker } = limit.settings
  const counted = breaker === null ? [] : [...currentOutcomes(limit, breaker, nowMs).values()]
  return counted.reduce((sum, { ok, failed }) => ({ ok: sum.ok + ok, failed: sum.failed + failed }), {
    ok: 0,
    failed: 0,
  })
}

/** A limit as shown. */
export function viewOf(limit: KeptLimit, nowMs: number): LimitView {
  const { name, settings, origin, emptyAtMs, notBeforeMs, running } = limit
  const { concurrency, rate, adaptive } = settings
  return {
    ...{ name, concurrency, rate, adaptive, origin, running },
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
  const probeAt = probeAtMs === null ? null : new Date(probeAtMs)
  const window = windowOf(limit, nowMs)
  return { settings: settings.breaker, position, since: new Date(sinceMs), probeAt, opens, forced, ...window, history }
}
