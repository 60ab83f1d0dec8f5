import { describe, expect, test } from 'vitest'
import { PACES, Pace, type PaceRow } from '../../src/core/pace.js'

const ROW: PaceRow = { minMs: 10, maxMs: 100, freshMs: 20, staleMs: 40, factor: 4, slowMs: 400 }

/** A pace, and calls that begin as soon as it allows them. */
function caller(row: PaceRow = ROW) {
  const pace = new Pace(row)
  let nowMs = 0
  return {
    pace,
    /** Makes a call and returns how long the next must wait, from its start to the next start. */
    call({ ageMs, tookMs = 0 }: { ageMs: number | null; tookMs?: number }): number {
      nowMs += pace.waitMs(nowMs)
      const startedMs = nowMs
      nowMs += tookMs
      pace.learn({ startedMs, endedMs: nowMs, ageMs })
      return nowMs - startedMs + pace.waitMs(nowMs)
    },
    rest: (ms: number) => {
      nowMs += ms
    },
  }
}

describe('a pace', () => {
  test('lets the first call begin immediately', () => {
    expect(new Pace(ROW).waitMs(0)).toBe(0)
  })

  test('doubles the gap with every call that finds nothing, up to the longest', () => {
    const { call } = caller()

    expect([1, 2, 3, 4, 5].map(() => call({ ageMs: null }))).toEqual([20, 40, 80, 100, 100])
  })

  test('lengthens the gap while finds are fresh and shortens it when they are stale', () => {
    const { call } = caller()

    const fresh = Array.from({ length: 20 }, () => call({ ageMs: 19 }))
    const stale = Array.from({ length: 20 }, () => call({ ageMs: 41 }))

    expect(fresh.slice(0, 3)).toEqual([12, 15, 18])
    expect(fresh.at(-1)).toBe(100)
    expect(stale.slice(0, 3)).toEqual([70, 49, 35])
    expect(stale.at(-1)).toBe(10)
  })

  test('keeps the gap while finds are neither', () => {
    const { call } = caller()
    call({ ageMs: null })

    expect([20, 30, 40].map((ageMs) => call({ ageMs }))).toEqual([20, 20, 20])
  })

  test('spends one part of its time in as many as its factor says, up to the longest gap of a slow call', () => {
    const { call } = caller()

    expect(call({ ageMs: 30, tookMs: 15 })).toBe(60)
    expect(call({ ageMs: 30, tookMs: 1_000 })).toBe(1_000)
    expect(call({ ageMs: 300, tookMs: 150 })).toBe(400)
  })

  test('takes no find for stale that is not older than twice the time the call took', () => {
    const { call, pace } = caller({ ...ROW, factor: 0 })
    call({ ageMs: null })
    call({ ageMs: null })

    const whileSlow = call({ ageMs: 200, tookMs: 100 })

    expect(whileSlow).toBe(100)
    expect(call({ ageMs: 201, tookMs: 100 })).toBe(100)
    expect(call({ ageMs: 30 })).toBe(28)
    expect(pace.waitMs(Number.MAX_SAFE_INTEGER)).toBe(0)
  })

  test('forgets after half a second without a call', () => {
    const { call, rest } = caller()
    for (let count = 0; count < 5; count++) call({ ageMs: null })

    rest(601)

    expect(call({ ageMs: 30 })).toBe(10)
  })

  test('remembers over a shorter time', () => {
    const { call, rest } = caller()
    for (let count = 0; count < 5; count++) call({ ageMs: null })

    rest(599)

    expect(call({ ageMs: 30 })).toBe(100)
  })

  test('waits no longer than its cap', () => {
    const { pace, call } = caller()
    pace.cap(25)

    expect([1, 2, 3].map(() => call({ ageMs: null }))).toEqual([20, 25, 25])
  })

  test('waits for nothing after a reset', () => {
    const { pace, call } = caller()
    call({ ageMs: null })

    pace.reset()

    expect(pace.waitMs(0)).toBe(0)
    expect(call({ ageMs: 30 })).toBe(10)
  })
})

describe('the table of paces', () => {
  test.each(Object.entries(PACES))('the numbers of %s are in order', (_name, row: PaceRow) => {
    expect(row.minMs).toBeLessThan(row.maxMs)
    expect(row.freshMs).toBeLessThanOrEqual(row.staleMs)
    expect(row.factor).toBeGreaterThanOrEqual(0)
  })

  test('notifications of 40 jobs a second keep their shortest gap, those of thousands get the longest', () => {
    const [few, many] = [caller(PACES.notify), caller(PACES.notify)]

    const gaps = Array.from({ length: 20 }, () => [few.call({ ageMs: 25 }), many.call({ ageMs: 0.3 })])

    expect(gaps.map(([gapMs]) => gapMs)).toEqual(gaps.map(() => 10))
    expect(gaps.at(-1)![1]).toBe(50)
  })

  test('settlements of jobs that come one after the other keep their shortest gap, those of many jobs get the longest', () => {
    const [few, many] = [caller(PACES.settle), caller(PACES.settle)]

    const gaps = Array.from({ length: 20 }, () => [few.call({ ageMs: 25 }), many.call({ ageMs: 3 })])

    expect(gaps.map(([gapMs]) => gapMs)).toEqual(gaps.map(() => 4))
    expect(gaps.at(-1)![1]).toBe(50)
  })

  test('a claim waits for a tenth of a second at most while the store is quick', () => {
    expect(PACES.claim.maxMs).toBe(100)
  })
})
