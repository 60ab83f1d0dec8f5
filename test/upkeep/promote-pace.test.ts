import { describe, expect, test } from 'vitest'
import { manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { PromotePace } from '../../src/upkeep/promote-pace.js'
import { openStage } from '../worker/stage.js'

function openPace() {
  const clock = manualClock()
  return { clock, pace: new PromotePace({ clock, timers: clock.timers, random: seededRandom() }) }
}

describe('the pace of promotions', () => {
  test('a process that always finds what it came for comes exactly when it is due', async () => {
    const { clock, pace } = openPace()
    for (let count = 0; count < 20; count++) {
      pace.waitMs(0)
      pace.learn({ promoted: 1, lateMs: 0 })
      await clock.advance(1_000)
    }

    expect(pace.waitMs(123)).toBe(123)
  })

  test('one that comes to nothing again and again comes later than it is due, a quarter of a second at most', async () => {
    const { clock, pace } = openPace()
    for (let count = 0; count < 20; count++) {
      pace.waitMs(0)
      pace.learn({ promoted: 0, lateMs: null })
      await clock.advance(1_000)
    }

    const waits = Array.from({ length: 200 }, () => pace.waitMs(123))

    expect(Math.max(...waits)).toBeGreaterThan(300)
    expect(Math.max(...waits)).toBeLessThanOrEqual(373)
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(123)
  })

  test('looking when nothing was expected teaches nothing', async () => {
    const { clock, pace } = openPace()
    for (let count = 0; count < 20; count++) {
      pace.learn({ promoted: 0, lateMs: null })
      await clock.advance(1_000)
    }

    expect(pace.waitMs(123)).toBe(123)
  })

  test('calls that find fresh jobs get further apart, calls that find stale ones closer', async () => {
    const { pace } = openPace()
    for (let count = 0; count < 50; count++) pace.learn({ promoted: 10, lateMs: 1 })
    const apart = pace.waitMs(0)

    for (let count = 0; count < 50; count++) pace.learn({ promoted: 10, lateMs: 100 })

    expect(apart).toBe(250)
    expect(pace.waitMs(0)).toBe(5)
  })
})

test('eight processes promote a stream of jobs with few calls, each job soon after its time', async () => {
  const stage = openStage()
  const upkeeps = Array.from({ length: 8 }, () => stage.upkeep())
  for (let index = 0; index < 300; index++) await stage.enqueue({ when: { delayMs: 1_000 + index * 10 } })
  for (const upkeep of upkeeps) upkeep.start()
  await stage.clock.advance(1_000)
  const before = stage.calls('promote')

  const late: number[] = []
  for (let ms = 1_000; ms < 4_300; ms += 10) {
    const { scheduled } = await stage.store.stats('default')
    // Those due by now that still wait, times ten, is how late the first of them is.
    late.push((scheduled - Math.max(0, 300 - (ms - 1_000) / 10 - 1)) * 10)
    await stage.clock.advance(10)
  }
  const calls = stage.calls('promote') - before
  await Promise.all(upkeeps.map((upkeep) => upkeep.stop()))

  expect((await stage.store.stats('default')).ready).toBe(300)
  // Without a pace every process calls for every job: 2,400 times.
  expect(calls).toBeLessThan(600)
  expect(Math.max(...late)).toBeLessThanOrEqual(250)
})
