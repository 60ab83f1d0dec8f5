// Laws of adaptive concurrency: the product's, and those it was compared with.

import {
  type AdaptiveReport,
  type AdaptiveSettings,
  adapt,
  concurrencyOf,
  startingAt,
} from '../../src/core/flow/adaptive.js'
import type { AdaptiveLaw } from './adaptive-model.js'

interface Level {
  readonly level: number
  readonly edge: number | null
  readonly fellAtMs: number
}

interface ClassicOptions {
  /** What is left of the level when calls are refused. */
  readonly fall: number
  /** It falls once in this time at most. */
  readonly eachMs: number
  /** How much more slowly it grows within 15 % of the level of the last refusal. */
  readonly slower: number
}

/** Additive increase and multiplicative decrease. */
function classic({ fall, eachMs, slower }: ClassicOptions): AdaptiveLaw {
  const within = ({ min, max }: AdaptiveSettings, level: number) => Math.min(max, Math.max(min, level))
  return {
    start: ({ min }): Level => ({ level: min, edge: null, fellAtMs: 0 }),
    adapt(settings, state: Level, { ok, overloaded, nowMs }: AdaptiveReport): Level {
      const { level, edge, fellAtMs } = state
      if (overloaded > 0) {
        if (nowMs - fellAtMs < eachMs) return state
        return { level: within(settings, level * fall), edge: level, fellAtMs: nowMs }
      }
      const isNear = edge !== null && Math.abs(level - edge) <= edge * 0.15
      const isBeyond = edge !== null && level > edge * 1.15
      const grown = within(settings, level + ok / (level * (isNear ? slower : 1)))
      return { level: grown, edge: isBeyond ? null : edge, fellAtMs }
    },
    concurrency: (_, { level }: Level) => Math.floor(level),
  }
}

/** By their names in tables. */
export const LAWS: Readonly<Record<string, AdaptiveLaw>> = {
  'half at a refusal, one more each round': classic({ fall: 0.5, eachMs: 100, slower: 1 }),
  'a tenth at a refusal, one more each round': classic({ fall: 0.9, eachMs: 100, slower: 1 }),
  'a tenth a second, ten times slower near the edge (before)': classic({ fall: 0.9, eachMs: 1_000, slower: 10 }),
  'a tenth in 100 ms, ten times slower near the edge': classic({ fall: 0.9, eachMs: 100, slower: 10 }),
  'a tenth in 100 ms, a hundred times slower near the edge': classic({ fall: 0.9, eachMs: 100, slower: 100 }),
  'one for each refusal, the edge remembered and paid for': {
    start: startingAt,
    adapt: (settings, state, report) => adapt(settings, state, report),
    concurrency: (settings, state) => concurrencyOf(settings, state),
  },
}
