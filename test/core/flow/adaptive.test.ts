// Adaptive concurrency: the rule itself, and the rule against a model of workers and a provider that takes a number of calls concurrently.

import { describe, expect, test } from 'vitest'
import { LAWS } from '../../../lab/experiments/adaptive-laws.js'
import { modelAdaptive, type ProviderCourse } from '../../../lab/experiments/adaptive-model.js'
import { type AdaptiveState, adapt, concurrencyOf, startingAt } from '../../../src/core/flow/adaptive.js'

const SETTINGS = { min: 1, max: 200 }
const AT_100: AdaptiveState = { level: 100, edge: null, fellAtMs: 0 }
const NOW = 10_000

/** One report after the other, 250 ms apart. */
function adapted(state: AdaptiveState, reports: readonly { readonly ok?: number; readonly overloaded?: number }[]) {
  return reports.reduce(
    (last, { ok = 0, overloaded = 0 }, index) => adapt(SETTINGS, last, { ok, overloaded, nowMs: NOW + index * 250 }),
    state,
  )
}

const rounds = (count: number, ok: number) => Array.from({ length: count }, () => ({ ok }))

describe('a concurrency that finds out by itself', () => {
  test('starts at its floor and never leaves its bounds', () => {
    let state = startingAt({ min: 3, max: 10 })
    expect(concurrencyOf({ min: 3, max: 10 }, state)).toBe(3)

    for (let round = 0; round < 500; round++)
      state = adapt({ min: 3, max: 10 }, state, { ok: 10, overloaded: 0, nowMs: round })
    expect(concurrencyOf({ min: 3, max: 10 }, state)).toBe(10)
    for (let round = 0; round < 500; round++) {
      state = adapt({ min: 3, max: 10 }, state, { ok: 0, overloaded: 5, nowMs: 1_000_000 + round * 2_000 })
    }
    expect(concurrencyOf({ min: 3, max: 10 }, state)).toBe(3)
  })

  test('grows by a quarter with each round of calls, whatever a report says beyond that', () => {
    expect(adapted(AT_100, [{ ok: 100 }]).level).toBe(125)
    expect(adapted(AT_100, [{ ok: 50 }]).level).toBe(112.5)
    expect(adapted(AT_100, [{ ok: 5_000 }]).level).toBe(125)
  })

  test('gives up one for each refusal of a burst, and half at most', () => {
    const once = adapt(SETTINGS, AT_100, { ok: 0, overloaded: 5, nowMs: NOW })
    const twice = adapt(SETTINGS, once, { ok: 0, overloaded: 7, nowMs: NOW + 50 })
    const often = adapt(SETTINGS, twice, { ok: 0, overloaded: 500, nowMs: NOW + 90 })

    expect([once, twice, often].map(({ level }) => level)).toEqual([95, 88, 50])
    expect(often.edge).toBe(100)
  })

  test('takes no notice of calls that began before the burst, such as those that run out of time together', () => {
    const fallen = adapt(SETTINGS, AT_100, { ok: 0, overloaded: 1, nowMs: NOW })

    const late = adapt(SETTINGS, fallen, { ok: 0, overloaded: 40, overloadedAfterMs: 5_000, nowMs: NOW + 4_000 })
    const fresh = adapt(SETTINGS, fallen, { ok: 0, overloaded: 40, overloadedAfterMs: 5, nowMs: NOW + 4_000 })

    expect(late.level).toBe(fallen.level)
    expect(fresh.level).toBeLessThan(fallen.level)
  })

  test('halves when a burst follows another without a round of good calls between them', () => {
    const fallen = adapt(SETTINGS, AT_100, { ok: 0, overloaded: 2, nowMs: NOW })

    const again = adapt(SETTINGS, fallen, { ok: 0, overloaded: 2, nowMs: NOW + 200 })
    const later = adapted(fallen, [{ ok: 99 }, { ok: 0 }, { overloaded: 2 }])

    expect(again).toMatchObject({ level: 49, edge: 98 })
    expect(later.level).toBeGreaterThan(95)
  })

  test('comes back below the edge within a few rounds, and stays there', () => {
    const fallen = adapted(AT_100, [{ overloaded: 20 }])

    const back = adapted({ ...fallen, fellAtMs: 0 }, rounds(15, 90))
    const stays = adapted(back, rounds(20, 90))

    expect([back, stays].map((state) => concurrencyOf(SETTINGS, state))).toEqual([99, 99])
  })

  test('tries the edge again when enough calls went well to pay for the last refusals', () => {
    const fallen = adapted({ level: 10, edge: null, fellAtMs: 0 }, [{ overloaded: 2 }])

    const early = adapted(fallen, rounds(55, 9))
    const paid = adapted(fallen, rounds(56, 9))

    expect([early, paid].map((state) => concurrencyOf(SETTINGS, state))).toEqual([9, 10])
    expect(paid.edge).toBe(10)
  })

  test('grows again in steps that double when the edge holds', () => {
    const probing: AdaptiveState = { level: 40, edge: 40, fellAtMs: 0, debt: 0, step: 1 }

    const levels = [2, 3, 4, 5].map((count) => concurrencyOf(SETTINGS, adapted(probing, rounds(count, 45))))

    expect(levels).toEqual([41, 42, 44, 48])
  })

  test('goes on from what an earlier version kept', () => {
    expect(adapted({ level: 20, edge: 24, fellAtMs: 5 }, [{ ok: 20 }]).level).toBe(21)
    expect(adapted({ level: 20, edge: 24, fellAtMs: 5 }, [{ overloaded: 1 }]).level).toBe(19)
  })

  test('keeps to new bounds when they are set', () => {
    expect(concurrencyOf({ min: 1, max: 5 }, { level: 50, edge: null, fellAtMs: 0 })).toBe(5)
    expect(
      adapt({ min: 1, max: 5 }, { level: 50, edge: null, fellAtMs: 0 }, { ok: 1, overloaded: 0, nowMs: 0 }).level,
    ).toBe(5)
  })
})

describe('against a provider', () => {
  const law = Object.values(LAWS).at(-1)!
  const run = (provider: ProviderCourse, processes: number) =>
    modelAdaptive({ law, settings: SETTINGS, provider, processes, warmUpMs: 20_000, endMs: 320_000, seed: 3 })

  test.each([5, 20, 40, 120])(
    'that takes %d calls it uses nine tenths and has one call in a hundred refused',
    (capacity) => {
      const { used, refused } = run({ capacity: () => capacity, latencyMs: () => 200 }, 8)

      expect(used).toBeGreaterThanOrEqual(0.9)
      expect(refused).toBeLessThanOrEqual(0.01)
    },
  )

  test.each([1, 8])('whose capacity and latency change it does the same, with %d processes', (processes) => {
    const capacity = (ms: number) => [40, 80, 30, 60][Math.floor(ms / 60_000) % 4]!
    const latencyMs = (ms: number) => [200, 400][Math.floor(ms / 45_000) % 2]!

    const { used, refused } = run({ capacity, latencyMs }, processes)

    expect(used).toBeGreaterThanOrEqual(0.9)
    expect(refused).toBeLessThanOrEqual(0.01)
  })
})
