// The token bucket: what it lets start, and when.

import { describe, expect, test } from 'vitest'
import { draw, FULL, priceOf, startsAt, tokensAt, waitMsFor } from '../../../src/core/flow/rate.js'
import type { Rate } from '../../../src/core/flow/settings.js'
import { seededRandom } from '../../../src/testing/seeded-random.js'

const START_MS = Date.UTC(2026, 2, 1)
const TEN: Rate = { limit: 10, perMs: 1_000, burst: 5, counts: 'starts' }

/** Starts as many as it may at each of the times; returns how many at each. */
function startsOf(rate: Rate, times: readonly number[]): number[] {
  let emptyAtMs = FULL
  return times.map((nowMs) => {
    let started = 0
    while (waitMsFor(rate, emptyAtMs, 1, nowMs) === 0) {
      emptyAtMs = draw(rate, emptyAtMs, 1, nowMs)
      started++
    }
    return started
  })
}

describe('a bucket', () => {
  test('is full at first, however large the burst', () => {
    expect(tokensAt(TEN, FULL, START_MS)).toBe(5)
    expect(startsAt({ ...TEN, burst: 1_000_000_000 }, FULL, START_MS)).toBe(1_000_000_000)
  })

  test('gives its burst, then one for each step of the rate', () => {
    expect(
      startsOf(
        TEN,
        [0, 100, 200, 250, 300].map((ms) => START_MS + ms),
      ),
    ).toEqual([5, 1, 1, 0, 1])
  })

  test('holds no more than its burst after a rest', () => {
    expect(startsOf(TEN, [START_MS, START_MS + 86_400_000])).toEqual([5, 5])
  })

  test('says how long until the next start, and that start may go then', () => {
    const emptyAtMs = draw(TEN, FULL, 5, START_MS)

    expect(waitMsFor(TEN, emptyAtMs, 1, START_MS)).toBe(100)
    expect(waitMsFor(TEN, emptyAtMs, 1, START_MS + 99)).toBe(1)
    expect(waitMsFor(TEN, emptyAtMs, 1, START_MS + 100)).toBe(0)
  })

  test('waits in whole milliseconds, rounded up', () => {
    const seven: Rate = { limit: 7, perMs: 1_000, burst: 1, counts: 'starts' }

    expect(waitMsFor(seven, draw(seven, FULL, 1, START_MS), 1, START_MS)).toBe(143)
  })

  test('never starts more in any window than burst and rate allow', () => {
    const { float: random } = seededRandom(7)
    for (let round = 0; round < 20; round++) {
      const rate: Rate = {
        limit: 1 + Math.floor(random() * 50),
        perMs: [1_000, 60_000, 777][Math.floor(random() * 3)]!,
        burst: 1 + Math.floor(random() * 20),
        counts: 'starts',
      }
      let nowMs = START_MS
      const times = Array.from({ length: 200 }, () => (nowMs += 1 + Math.floor(random() * 80)))
      const starts = startsOf(rate, times)

      for (let from = 0; from < times.length; from += 7) {
        let started = 0
        for (let to = from; to < times.length; to++) {
          started += starts[to]!
          const allowed = rate.burst + ((times[to]! - times[from]! + 0.05) * rate.limit) / rate.perMs
          expect(started).toBeLessThanOrEqual(allowed)
        }
      }
    }
  })

  test('begins anew when a clock that was more than a day ahead is set back', () => {
    const emptyAtMs = draw(TEN, FULL, 5, START_MS + 3 * 86_400_000)

    expect(startsAt(TEN, emptyAtMs, START_MS)).toBe(5)
    expect(waitMsFor(TEN, draw(TEN, emptyAtMs, 5, START_MS), 1, START_MS)).toBe(100)
  })

  test('keeps what it owes when a clock that was less than a day ahead is set back', () => {
    const emptyAtMs = draw(TEN, FULL, 5, START_MS + 3_600_000)

    expect(waitMsFor(TEN, emptyAtMs, 1, START_MS)).toBe(3_600_100)
  })

  test('loses nothing to rounding over many starts', () => {
    const third: Rate = { limit: 3, perMs: 1_000, burst: 1, counts: 'starts' }
    const times = Array.from({ length: 3_001 }, (_, second) => START_MS + second * 1_000)

    const started = startsOf({ ...third, burst: 3 }, times).reduce((sum, count) => sum + count, 0)

    expect(started).toBe(3 + 3 * 3_000)
  })
})

describe('a bucket that counts cost', () => {
  const budget: Rate = { limit: 100, perMs: 1_000, burst: 50, counts: 'cost' }

  test('takes the cost of a start; one that counts starts takes one', () => {
    expect(priceOf(budget, 30)).toBe(30)
    expect(priceOf(TEN, 30)).toBe(1)
  })

  test('waits until there is enough for the cost', () => {
    const emptyAtMs = draw(budget, FULL, 40, START_MS)

    expect(waitMsFor(budget, emptyAtMs, 10, START_MS)).toBe(0)
    expect(waitMsFor(budget, emptyAtMs, 30, START_MS)).toBe(200)
  })

  test('lets a start that costs more than it holds go when it is full, and pays for it afterwards', () => {
    const emptyAtMs = draw(budget, FULL, 250, START_MS)

    expect(tokensAt(budget, emptyAtMs, START_MS)).toBe(-200)
    expect(startsAt(budget, emptyAtMs, START_MS)).toBe(0)
    expect(waitMsFor(budget, emptyAtMs, 250, START_MS)).toBe(2_500)
  })

  test('owes no more than a day gives it, and what it holds', () => {
    const emptyAtMs = draw(budget, FULL, 1_000_000_000, START_MS)

    expect(waitMsFor(budget, emptyAtMs, 1, START_MS)).toBe(86_400_000 + 500 + 10)
  })

  test('stays full when something is given back to it, also by a slower rate', () => {
    const emptyAtMs = draw(budget, FULL, -5, START_MS)

    expect(startsAt({ ...budget, perMs: 86_400_000 }, emptyAtMs, START_MS)).toBe(50)
  })

  test('gets back what was not spent', () => {
    const taken = draw(budget, FULL, 40, START_MS)

    expect(tokensAt(budget, draw(budget, taken, -25, START_MS), START_MS)).toBeCloseTo(35, 2)
  })
})
