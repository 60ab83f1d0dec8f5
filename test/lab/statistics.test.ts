// Sums over measurements.

import { describe, expect, test } from 'vitest'
import { median, percentile, spreadOf, sum } from '../../lab/bench/statistics.js'

describe('percentiles', () => {
  test('the median of an even count is the lower of the two in the middle', () => {
    expect(median([4, 1, 3, 2])).toBe(2)
    expect(median([3, 1, 2])).toBe(2)
  })

  test('the 99th of a hundred leaves one above it', () => {
    const values = Array.from({ length: 100 }, (_, index) => index + 1)

    expect(percentile(values, 0.99)).toBe(99)
    expect(percentile(values, 1)).toBe(100)
    expect(percentile(values, 0)).toBe(1)
  })

  test('of no values there is no percentile', () => {
    expect(percentile([], 0.5)).toBeNaN()
    expect(spreadOf([])).toEqual({ count: 0, p50: null, p99: null, max: null })
  })

  test('the values stay in the order they came in', () => {
    const values = [3, 1, 2]

    spreadOf(values)

    expect(values).toEqual([3, 1, 2])
  })

  test('a spread has the middle, the 99th and the largest', () => {
    expect(spreadOf([5, 1, 9])).toEqual({ count: 3, p50: 5, p99: 9, max: 9 })
  })
})

test('the sum of nothing is 0', () => {
  expect(sum([])).toBe(0)
  expect(sum([1, 2, 3])).toBe(6)
})
