import { describe, expect, test } from 'vitest'
import { seriesSteps } from '../../src/core/series.js'
import { raised } from './raises.js'

const NOW_MS = Date.UTC(2026, 10, 1, 12)

describe('seriesSteps', () => {
  test('steps begin at multiples of their length and reach to now', () => {
    expect(seriesSteps({ sinceMs: NOW_MS - 25_000, stepMs: 10_000 }, NOW_MS)).toEqual([
      NOW_MS - 30_000,
      NOW_MS - 20_000,
      NOW_MS - 10_000,
      NOW_MS,
    ])
  })

  test('no more than 500 are given', () => {
    expect(seriesSteps({ sinceMs: NOW_MS - 5_000_000, stepMs: 10_000 }, NOW_MS)).toHaveLength(500)
  })

  test('a beginning in the future has none', () => {
    expect(seriesSteps({ sinceMs: NOW_MS + 60_000, stepMs: 10_000 }, NOW_MS)).toEqual([])
  })

  test.each([0, -10_000, 5_000, 15_000, Number.NaN, 10_000.5])('a step of %s ms is refused', (stepMs) => {
    expect(() => seriesSteps({ sinceMs: NOW_MS - 1_000, stepMs }, NOW_MS)).toThrow(
      raised('invalid_option', 'a multiple of'),
    )
  })

  test('too many points are refused', () => {
    expect(() => seriesSteps({ sinceMs: NOW_MS - 6_000_000, stepMs: 10_000 }, NOW_MS)).toThrow(raised('invalid_option'))
  })
})
