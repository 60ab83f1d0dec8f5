// The breaker: when it opens, what it lets through, how it closes.

import { describe, expect, test } from 'vitest'
import {
  afterOutcomes,
  afterStart,
  type Breaker,
  type BreakerSettings,
  CLOSED,
  COOLDOWN_MS_MAX,
  forcedTo,
  isShut,
  judgedOutcomes,
  type Outcomes,
  probesOf,
} from '../../../src/core/flow/breaker.js'

const SETTINGS: BreakerSettings = { failures: 0.5, of: 10, withinMs: 30_000, cooldownMs: 15_000, probes: 3 }
const NOW = 1_000_000

function report(breaker: Breaker, window: Outcomes, fresh: Outcomes = window, nowMs: number = NOW): Breaker {
  return afterOutcomes(SETTINGS, breaker, { window, fresh, nowMs })
}

const OPEN = report(CLOSED, { ok: 0, failed: 10 })
const HALF_OPEN = afterStart(OPEN, NOW + 15_000)

describe('a closed breaker', () => {
  test('opens when the part that failed is reached', () => {
    expect(report(CLOSED, { ok: 5, failed: 5 })).toMatchObject({ position: 'open', probeAtMs: NOW + 15_000, opens: 1 })
  })

  test('stays closed below that part', () => {
    expect(report(CLOSED, { ok: 6, failed: 5 }).position).toBe('closed')
  })

  test('stays closed while there are too few outcomes to judge', () => {
    expect(report(CLOSED, { ok: 0, failed: 9 }).position).toBe('closed')
  })

  test('judges by as few of the newest seconds as have enough outcomes', () => {
    const seconds = [
      [5, { ok: 100, failed: 0 }],
      [7, { ok: 3, failed: 4 }],
      [8, { ok: 0, failed: 6 }],
    ] as const

    expect(judgedOutcomes(SETTINGS, seconds)).toEqual({ ok: 3, failed: 10 })
    expect(judgedOutcomes({ of: 6 }, seconds)).toEqual({ ok: 0, failed: 6 })
    expect(judgedOutcomes({ of: 500 }, seconds)).toEqual({ ok: 103, failed: 10 })
  })

  test('lets any number start', () => {
    expect(isShut(CLOSED, NOW)).toBe(false)
    expect(probesOf(SETTINGS, CLOSED)).toBe(null)
  })
})

describe('an open breaker', () => {
  test('lets nothing start before its cool-down is over', () => {
    expect(isShut(OPEN, NOW + 14_999)).toEqual({ untilMs: NOW + 15_000 })
    expect(isShut(OPEN, NOW + 15_000)).toBe(false)
  })

  test('takes no notice of outcomes: they are of jobs that started before', () => {
    expect(report(OPEN, { ok: 100, failed: 0 })).toBe(OPEN)
    expect(report(OPEN, { ok: 0, failed: 100 })).toBe(OPEN)
  })

  test('is half open from the first start on', () => {
    expect(HALF_OPEN).toMatchObject({ position: 'half_open', probeAtMs: null, successes: 0, opens: 1 })
    expect(probesOf(SETTINGS, HALF_OPEN)).toBe(3)
  })
})

describe('a half-open breaker', () => {
  test('closes after as many successes as there are probes', () => {
    const once = report(HALF_OPEN, { ok: 1, failed: 0 })
    const twice = report(once, { ok: 1, failed: 0 })

    expect([once.position, twice.position]).toEqual(['half_open', 'half_open'])
    expect(report(twice, { ok: 1, failed: 0 }, undefined, NOW + 20_000)).toEqual({ ...CLOSED, sinceMs: NOW + 20_000 })
  })

  test('opens with one failure, for twice as long each time, up to ten minutes', () => {
    let breaker = OPEN
    const waits: number[] = []
    for (let round = 0; round < 9; round++) {
      waits.push(breaker.probeAtMs! - breaker.sinceMs)
      const probing = afterStart(breaker, breaker.probeAtMs!)
      breaker = report(probing, { ok: 2, failed: 1 }, undefined, breaker.probeAtMs!)
    }

    expect(waits).toEqual([15, 30, 60, 120, 240, 480, 600, 600, 600].map((seconds) => seconds * 1_000))
    expect(COOLDOWN_MS_MAX).toBe(600_000)
  })

  test('stays open no longer than its settings say', () => {
    const settings = { ...SETTINGS, cooldownMaxMs: 40_000 }
    let breaker = OPEN
    const waits: number[] = []
    for (let round = 0; round < 4; round++) {
      const probing = afterStart(breaker, breaker.probeAtMs!)
      const nowMs = breaker.probeAtMs!
      breaker = afterOutcomes(settings, probing, { window: { ok: 0, failed: 1 }, fresh: { ok: 0, failed: 1 }, nowMs })
      waits.push(breaker.probeAtMs! - nowMs)
    }

    expect(waits).toEqual([30_000, 40_000, 40_000, 40_000])
  })

  test('counts its openings anew after it was closed', () => {
    const closed = report(HALF_OPEN, { ok: 3, failed: 0 })

    expect(report(closed, { ok: 0, failed: 10 })).toMatchObject({ opens: 1, probeAtMs: NOW + 15_000 })
  })
})

describe('a forced breaker', () => {
  test('held open lets nothing start and has no time', () => {
    expect(isShut(forcedTo('open', NOW), NOW + 1e9)).toEqual({ untilMs: null })
  })

  test('held closed does not open, whatever fails', () => {
    const held = forcedTo('closed', NOW)

    expect(report(held, { ok: 0, failed: 1_000 })).toBe(held)
    expect(isShut(held, NOW)).toBe(false)
    expect(probesOf(SETTINGS, held)).toBe(null)
  })

  test('starts anew, closed, when it is left to itself', () => {
    expect(forcedTo(null, NOW)).toEqual({ ...CLOSED, sinceMs: NOW })
  })
})
