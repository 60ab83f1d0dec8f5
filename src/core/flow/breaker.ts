// The circuit breaker of a limit, as pure rules. Closed: jobs start. Open: none starts, and none loses an attempt. Half open: a few start to
// find out whether what they need works again.

/** When a breaker opens, and how it closes again. */
export interface BreakerSettings {
  /** It opens when this part of the outcomes failed, above 0 and up to 1. */
  readonly failures: number
  /** It judges by the newest outcomes, by as many seconds of them as it takes to have at least this many. With fewer it does not judge. */
  readonly of: number
  /** How long an outcome counts. */
  readonly withinMs: number
  /** How long it stays open the first time. Each time that the probes fail it stays open twice as long. */
  readonly cooldownMs: number
  /** It stays open no longer than this before the next probe. Default COOLDOWN_MS_MAX, or `cooldownMs` where that is longer. */
  readonly cooldownMaxMs?: number
  /** How many jobs may run concurrently while it is half open, and how many must succeed to close it. */
  readonly probes: number
}

/** How long it stays open at most, unless its settings say otherwise. */
export const COOLDOWN_MS_MAX = 600_000

export type BreakerPosition = 'closed' | 'open' | 'half_open'

/** What a store keeps of a breaker beside the outcomes. */
export interface Breaker {
  readonly position: BreakerPosition
  /** When it came to this position. Outcomes from before do not count. */
  readonly sinceMs: number
  /** Of an open one: when it is probed. */
  readonly probeAtMs: number | null
  /** How often it has opened since it was last closed. */
  readonly opens: number
  /** Successes since it is half open. */
  readonly successes: number
  /** An operator's word, which wins over all. */
  readonly forced: 'open' | 'closed' | null
}

/** A breaker nobody has reported to. */
export const CLOSED: Breaker = {
  position: 'closed',
  sinceMs: 0,
  probeAtMs: null,
  opens: 0,
  successes: 0,
  forced: null,
}

/** How many attempts went well and how many failed. */
export interface Outcomes {
  readonly ok: number
  readonly failed: number
}

/** How many moves of a breaker are kept. */
export const BREAKER_MOVES_MAX = 50
/** The outcomes a breaker judges by: those of the newest seconds, as few as have enough. A dependency that goes down after a busy time would
 *  otherwise have to fail as often as it went well before. */
export function judgedOutcomes(
  { of }: Pick<BreakerSettings, 'of'>,
  bySecond: Iterable<readonly [second: number, outcomes: Outcomes]>,
): Outcomes {
  let [ok, failed] = [0, 0]
  for (const [, outcomes] of [...bySecond].sort(([one], [other]) => other - one)) {
    if (ok + failed >= of) break
    ok += outcomes.ok
    failed += outcomes.failed
  }
  return { ok, failed }
}

/** Whether nothing may start now, and until when: null for a breaker that is held open. False when jobs may start. */
export function isShut(breaker: Breaker, nowMs: number): false | { readonly untilMs: number | null } {
  if (breaker.forced !== null) return breaker.forced === 'open' ? { untilMs: null } : false
  if (breaker.position !== 'open' || breaker.probeAtMs! <= nowMs) return false
  return { untilMs: breaker.probeAtMs }
}

/** How many may run while it is not shut; null for any number. */
export function probesOf(settings: BreakerSettings, breaker: Breaker): number | null {
  return breaker.forced === null && breaker.position !== 'closed' ? settings.probes : null
}

/** The breaker when a job starts: the first after the cool-down is a probe. */
export function afterStart(breaker: Breaker, nowMs: number): Breaker {
  if (breaker.forced !== null || breaker.position !== 'open') return breaker
  return { ...breaker, position: 'half_open', sinceMs: nowMs, probeAtMs: null, successes: 0 }
}

/** The breaker when outcomes are reported. `window` is what it judges by, `fresh` what this report added. */
export function afterOutcomes(
  settings: BreakerSettings,
  breaker: Breaker,
  { window, fresh, nowMs }: { readonly window: Outcomes; readonly fresh: Outcomes; readonly nowMs: number },
): Breaker {
  if (breaker.forced !== null || breaker.position === 'open') return breaker
  if (breaker.position === 'half_open') {
    if (fresh.failed > 0) return opened(settings, breaker, nowMs)
    const successes = breaker.successes + fresh.ok
    if (successes < settings.probes) return { ...breaker, successes }
    return { ...CLOSED, sinceMs: nowMs }
  }
  const total = window.ok + window.failed
  const isBad = total >= settings.of && window.failed >= settings.failures * total
  return isBad ? opened(settings, breaker, nowMs) : breaker
}

function opened(settings: BreakerSettings, breaker: Breaker, nowMs: number): Breaker {
  const { cooldownMs, cooldownMaxMs = Math.max(cooldownMs, COOLDOWN_MS_MAX) } = settings
  const waitMs = Math.min(cooldownMs * 2 ** Math.min(breaker.opens, 20), cooldownMaxMs)
  const opens = breaker.opens + 1
  return { position: 'open', sinceMs: nowMs, probeAtMs: nowMs + waitMs, opens, successes: 0, forced: null }
}

/** Whether an operator's word changes nothing. One that opened by itself is closed when it is left to itself. */
export function isForcedTo({ forced, position }: Breaker, word: Breaker['forced']): boolean {
  return forced === word && (word !== null || position === 'closed')
}

/** The breaker in an operator's hands, or left to itself again, when it starts anew. */
export function forcedTo(forced: Breaker['forced'], nowMs: number): Breaker {
  const position = forced === 'open' ? 'open' : 'closed'
  return { ...CLOSED, position, sinceMs: nowMs, forced }
}
