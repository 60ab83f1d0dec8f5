// Adaptive concurrency, as a pure rule: a limit that finds out by itself how much a dependency takes.
//
// It remembers the edge, the lowest level at which calls were refused. Each refusal takes one off the level, and the refusals of one burst at
// most half of it. Below the edge the level comes back within a few rounds of calls, and stays there. It tries the edge again when enough calls
// went well to pay for the refusals that may cost. When the edge holds, the dependency takes more now: the level grows in steps that
// double.

/** Between which bounds the concurrency moves. */
export interface AdaptiveSettings {
  readonly min: number
  readonly max: number
}

/** What a store keeps of it. The last four are absent in what an earlier version kept. */
export interface AdaptiveState {
  /** The concurrency that holds is the whole part. */
  readonly level: number
  /** The concurrency at which calls were refused last; null when they were not, or the dependency takes more since. */
  readonly edge: number | null
  /** When the last burst of refusals began. */
  readonly fellAtMs: number
  /** How many bursts there were without a round of good calls between them. */
  readonly bursts?: number
  /** How many calls must go well before the edge is tried again. */
  readonly debt?: number
  /** How many calls went well since the last burst. */
  readonly good?: number
  /** How much a round of calls may add where no edge is known; null for as much as the level allows. */
  readonly step?: number | null
}

/** What workers report of a limit's calls. */
export interface AdaptiveReport {
  /** Calls that went well. */
  readonly ok: number
  /** Calls that were refused for load. */
  readonly overloaded: number
  /** The shortest time that one of those had taken: 0 for a refusal, much for a timeout. Default 0. */
  readonly overloadedAfterMs?: number
  readonly nowMs: number
}

/** Refusals within this time of the first, and of calls that began before, belong to its burst: the new level was not in force everywhere. */
const BURST_MS = 100
/** A refusal is paid for by this many calls that go well: that alone keeps refusals below half a percent. */
const CALLS_PER_REFUSAL = 250
/** But by no more than this many rounds of calls, so that a dependency that takes more again is not left idle for long; */
const ROUNDS_MAX = 50
/** nor, at low levels, by more than this many calls. */
const CALLS_MAX = 1_000
/** The most that a round of calls adds to the level where no edge is known. */
const GROWTH = 0.25
/** Which part of the way to the edge a round of calls covers. */
const APPROACH = 0.25
/** How many rounds must go well at the edge. Those that were already running began below it. */
const ROUNDS_AT_EDGE = 2

/** At first as little as allowed: a new dependency is not flooded. */
export function startingAt({ min }: AdaptiveSettings): AdaptiveState {
  return { level: min, edge: null, fellAtMs: 0 }
}

/** The state after calls that went well and calls that were refused for load. */
export function adapt(settings: AdaptiveSettings, state: AdaptiveState, report: AdaptiveReport): AdaptiveState {
  const { min, max } = settings
  const level = Math.min(max, Math.max(min, state.level))
  const debt = Math.max(0, (state.debt ?? 0) - report.ok)
  const after =
    report.overloaded > 0 ? fallen({ ...state, level, debt }, report) : grown({ ...state, level, debt }, report)
  return { ...after, level: Math.min(max, Math.max(min, after.level)) }
}

function fallen(state: AdaptiveState, { overloaded, overloadedAfterMs = 0, nowMs }: AdaptiveReport): AdaptiveState {
  const { level, edge, fellAtMs, bursts = 0 } = state
  const most = Math.max(ROUNDS_MAX * level, CALLS_MAX)
  const debt = Math.min(most, (state.debt ?? 0) + overloaded * CALLS_PER_REFUSAL)
  if (edge !== null && nowMs - overloadedAfterMs < fellAtMs + BURST_MS) {
    // A call that began before the burst says nothing new. Others say how much too many there were.
    const isLate = nowMs - overloadedAfterMs < fellAtMs
    return { ...state, debt, level: isLate ? level : Math.max(edge / 2, level - overloaded) }
  }
  const half = level / 2
  // A burst after another, without good calls between them: the dependency takes much less than before.
  const cut = bursts > 0 ? half : Math.min(half, overloaded)
  return {
    ...{ level: level - cut, edge: Math.floor(level), fellAtMs: nowMs, debt },
    ...{ bursts: bursts + 1, good: 0, step: 1 },
  }
}

function grown(state: AdaptiveState, { ok }: AdaptiveReport): AdaptiveState {
  const { level, edge, debt = 0, step = null } = state
  const good = (state.good ?? 0) + ok
  const bursts = good >= level ? 0 : (state.bursts ?? 0)
  const next = { ...state, good, bursts }
  // A report of many short calls counts as one round: what more of them would allow has not been tried.
  const rounds = Math.min(1, ok / level)
  if (edge === null) {
    const most = Math.max(1, level * GROWTH)
    const added = step === null ? most : Math.min(step, most)
    return { ...next, level: level + rounds * added, step: step === null ? null : added * (1 + rounds) }
  }
  if (level < edge) {
    const nearer = level + rounds * Math.max(APPROACH, (edge - level) * APPROACH)
    if (nearer < edge - 1 || debt > 0) return { ...next, level: Math.min(nearer, edge - APPROACH) }
    return { ...next, level: edge }
  }
  const tried = level + rounds / ROUNDS_AT_EDGE
  return { ...next, level: tried, edge: tried >= edge + 1 ? null : edge }
}

/** The concurrency that holds. */
export function concurrencyOf({ min, max }: AdaptiveSettings, { level }: AdaptiveState): number {
  return Math.floor(Math.min(max, Math.max(min, level)))
}
