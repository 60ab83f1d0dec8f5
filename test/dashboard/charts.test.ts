import { describe, expect, test } from 'vitest'
import type { SeriesPoint } from '../../dashboard/src/api/types.js'
import {
  ageLines,
  axisTimeText,
  COUNT_STEPS,
  depthLines,
  latestOf,
  layersOf,
  peakOf,
  RANGES,
  RATE_STEPS,
  stackOf,
  throughputLines,
  timesOf,
} from '../../dashboard/src/charts/shape.js'
import { rateText, shortText } from '../../dashboard/src/numbers.js'
import { durationMs } from '../../src/core/duration.js'
import { BUCKET_MS, NO_TALLY, SERIES_KEPT_MS, SERIES_POINTS_MAX } from '../../src/core/operating.js'

const NOTHING: Omit<SeriesPoint, 'at'> = { depth: null, ...NO_TALLY }
const points: readonly SeriesPoint[] = [
  {
    ...NOTHING,
    at: '2026-11-15T12:00:00Z',
    depth: { ready: 4, running: 2, retrying: 1, scheduled: 0, blocked: 0, dead: 0, oldestAgeS: 3 },
    enqueued: 50,
    succeeded: 40,
  },
  { ...NOTHING, at: '2026-11-15T12:00:10Z', enqueued: 20, succeeded: 10 },
]

describe('lines', () => {
  test('counts of a step become rates per second, except for the unfinished step', () => {
    const [succeeded, enqueued] = throughputLines(points, 10)

    expect(succeeded!.values).toEqual([4, null])
    expect(enqueued!.values).toEqual([5, null])
    expect(timesOf(points)).toEqual([1_794_744_000, 1_794_744_010])
  })

  test('a step without a sample leaves a gap, not a zero', () => {
    expect(ageLines(points)[0]!.values).toEqual([3, null])
    expect(depthLines(points).find(({ label }) => label === 'ready')!.values).toEqual([4, null])
  })

  test('stacked lines add up, and an unknown point has nothing above it', () => {
    const line = (...values: (number | null)[]) => ({ label: '', colour: '', values })

    expect(stackOf([line(1, 2), line(10, null), line(100, 100)])).toEqual([
      [1, 2],
      [11, null],
      [111, null],
    ])
  })

  test('stacked lines without jobs are not drawn, and do not cover others', () => {
    const line = (label: string, ...values: (number | null)[]) => ({ label, colour: label, values })
    const empty = line('blocked', 0, 0)
    const layers = layersOf([line('running', 0, 0), line('ready', 5, 6), line('retrying', 0, 1), empty])

    expect(layers.map(({ label, values }) => [label, values])).toEqual([
      ['retrying', [5, 7]],
      ['ready', [5, 6]],
    ])
    expect(layersOf([empty])).toEqual([empty])
  })

  test.each([
    ['counts', COUNT_STEPS, shortText],
    ['rates', RATE_STEPS, rateText],
  ] as const)('no two marks of an axis of %s read the same', (_, steps, text) => {
    for (const step of steps) {
      const marks = [0, 1, 2, 3, 4, 5].map((mark) => text(mark * step))

      expect(new Set(marks).size, `${marks}`).toBe(marks.length)
    }
  })

  test('the latest value is the last that is known', () => {
    const line = { label: '', colour: '', values: [3, 9, null] }

    expect(latestOf(line)).toBe(9)
    expect(peakOf(line)).toBe(9)
    expect(latestOf({ ...line, values: [null] })).toBeNull()
  })
})

describe('ranges', () => {
  test('the store accepts every range', () => {
    for (const { value, step, stepS } of RANGES) {
      const sinceMs = durationMs(value, { name: 'since' })
      const stepMs = durationMs(step, { name: 'step' })

      expect(stepMs).toBe(stepS * 1_000)
      expect(stepMs % BUCKET_MS).toBe(0)
      expect(sinceMs).toBeLessThanOrEqual(SERIES_KEPT_MS)
      expect(sinceMs / stepMs + 1).toBeLessThanOrEqual(SERIES_POINTS_MAX)
    }
  })

  test('time labels show what distinguishes them', () => {
    const noon = Date.parse('2026-11-15T12:00:00Z') / 1_000
    const midnight = Date.parse('2026-11-15T00:00:00Z') / 1_000

    expect(axisTimeText(noon + 5, 15, true)).toBe('12:00:05')
    expect(axisTimeText(noon, 600, true)).toBe('12:00')
    expect(axisTimeText(midnight, 21_600, true)).toBe('15 Nov')
    expect(axisTimeText(midnight, 600, true)).toBe('00:00')
  })
})
