import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { CronTimes } from '../../src/core/cron.js'
import { parseCron } from '../../src/core/cron.js'
import { type CatchUpPolicy, MISSED_AFTER_MS, TICKS_PER_FIRING_MAX, ticksDue } from '../../src/core/schedule.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const NOON = Date.UTC(2026, 0, 15, 12)

/** Times at these moments and no others. */
function timesAt(moments: readonly number[]): Pick<CronTimes, 'next' | 'between'> {
  return {
    next: (afterMs) => moments.find((moment) => moment > afterMs) ?? null,
    between: (fromMs, toMs, count) => moments.filter((moment) => moment >= fromMs && moment <= toMs).slice(-count),
  }
}

const hourly = parseCron('0 * * * *', 'UTC')
const skip: CatchUpPolicy = { catchUp: 'skip', catchUpMax: 10 }
const latest: CatchUpPolicy = { catchUp: 'latest', catchUpMax: 10 }
const all: CatchUpPolicy = { catchUp: 'all', catchUpMax: 10 }

describe('ticksDue', () => {
  test.each([skip, latest, all])('a tick on time becomes a job: $catchUp', (policy) => {
    expect(ticksDue(hourly, policy, NOON, NOON)).toEqual({ ticks: [NOON], nextAtMs: NOON + HOUR })
  })

  test.each([skip, latest, all])('a tick that is only slow is not missed: $catchUp', (policy) => {
    const firing = ticksDue(hourly, policy, NOON, NOON + MISSED_AFTER_MS)

    expect(firing).toEqual({ ticks: [NOON], nextAtMs: NOON + HOUR })
  })

  test('skip leaves out what was missed', () => {
    const firing = ticksDue(hourly, skip, NOON - 5 * HOUR, NOON - 1)

    expect(firing).toEqual({ ticks: [], nextAtMs: NOON })
  })

  test('latest makes up for the last one missed', () => {
    const firing = ticksDue(hourly, latest, NOON - 5 * HOUR, NOON - 1)

    expect(firing).toEqual({ ticks: [NOON - HOUR], nextAtMs: NOON })
  })

  test('latest makes up for nothing when a tick is fresh', () => {
    const firing = ticksDue(hourly, latest, NOON - 5 * HOUR, NOON + 1)

    expect(firing).toEqual({ ticks: [NOON], nextAtMs: NOON + HOUR })
  })

  test('all makes up for what was missed, up to its number, the newest ones', () => {
    const firing = ticksDue(hourly, { catchUp: 'all', catchUpMax: 3 }, NOON - 5 * HOUR, NOON + 1)

    expect(firing.ticks).toEqual([NOON - 3 * HOUR, NOON - 2 * HOUR, NOON - HOUR, NOON])
  })

  test('the tick that is due is included, those before it are not', () => {
    const firing = ticksDue(hourly, all, NOON - HOUR, NOON)

    expect(firing.ticks).toEqual([NOON - HOUR, NOON])
  })

  test('more than one firing may turn into jobs is due again immediately', () => {
    const minutely = parseCron('* * * * *', 'UTC')
    const policy: CatchUpPolicy = { catchUp: 'all', catchUpMax: 1_000 }

    const fired: number[] = []
    let nextAtMs: number | null = NOON - 250 * MINUTE
    const firings: number[] = []
    while (nextAtMs !== null && nextAtMs <= NOON) {
      const firing = ticksDue(minutely, policy, nextAtMs, NOON)
      fired.push(...firing.ticks)
      firings.push(firing.ticks.length)
      nextAtMs = firing.nextAtMs
    }

    expect(firings).toEqual([TICKS_PER_FIRING_MAX, TICKS_PER_FIRING_MAX, 51])
    expect(fired).toEqual(Array.from({ length: 251 }, (_, index) => NOON + (index - 250) * MINUTE))
    expect(nextAtMs).toBe(NOON + MINUTE)
  })

  test('an expression without a further time is due no more', () => {
    expect(ticksDue(timesAt([NOON]), latest, NOON, NOON)).toEqual({ ticks: [NOON], nextAtMs: null })
  })

  test('ticks every second are all there while they are fresh', () => {
    const secondly = parseCron('* * * * * *', 'UTC')

    const firing = ticksDue(secondly, skip, NOON - HOUR, NOON)

    expect(firing.ticks).toEqual(Array.from({ length: 61 }, (_, index) => NOON + (index - 60) * 1_000))
  })
})

/** Moments at least a second apart, a due time among them or not, and a now. */
const anySituation = fc
  .record({
    gapsS: fc.array(fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 90 }), fc.integer({ min: 1, max: 9_000 })), {
      minLength: 1,
      maxLength: 400,
    }),
    policy: fc.record({
      catchUp: fc.constantFrom('skip', 'latest', 'all'),
      catchUpMax: fc.integer({ min: 1, max: 300 }),
    }),
    from: fc.nat(399),
    to: fc.nat(399),
    lateMs: fc.nat(2 * MINUTE),
  })
  .map(({ gapsS, policy, from, to, lateMs }) => {
    let moment = NOON
    const moments = gapsS.map((gapS) => {
      moment += gapS * 1_000
      return moment
    })
    const nextAtMs = moments[from % moments.length]!
    return { moments, policy, nextAtMs, nowMs: Math.max(nextAtMs, moments[to % moments.length]! + lateMs) }
  })

describe('ticksDue, whatever the times', () => {
  test('ticks are times of the schedule, each once, oldest first, none before it was due nor after now', () => {
    fc.assert(
      fc.property(anySituation, ({ moments, policy, nextAtMs, nowMs }) => {
        const { ticks } = ticksDue(timesAt(moments), policy, nextAtMs, nowMs)

        expect(ticks.every((tick) => moments.includes(tick) && tick >= nextAtMs && tick <= nowMs)).toBe(true)
        expect(ticks).toEqual([...new Set(ticks)].sort((one, other) => one - other))
        expect(ticks.length).toBeLessThanOrEqual(TICKS_PER_FIRING_MAX)
      }),
    )
  })

  test('firing until nothing is due makes every fresh tick a job, and as many missed ones as the policy allows', () => {
    fc.assert(
      fc.property(anySituation, ({ moments, policy, nextAtMs, nowMs }) => {
        const fired: number[] = []
        let dueMs: number | null = nextAtMs
        while (dueMs !== null && dueMs <= nowMs) {
          const firing = ticksDue(timesAt(moments), policy, dueMs, nowMs)
          fired.push(...firing.ticks)
          dueMs = firing.nextAtMs
        }

        const due = moments.filter((moment) => moment >= nextAtMs && moment <= nowMs)
        const missed = due.filter((tick) => nowMs - tick > MISSED_AFTER_MS)
        const fresh = due.filter((tick) => nowMs - tick <= MISSED_AFTER_MS)
        const madeUp = {
          skip: [],
          latest: fresh.length > 0 ? [] : missed.slice(-1),
          all: missed.slice(-policy.catchUpMax),
        }
        expect(fired).toEqual([...madeUp[policy.catchUp], ...fresh])
        expect(dueMs).toBe(moments.find((moment) => moment > nowMs) ?? null)
      }),
    )
  })
})
