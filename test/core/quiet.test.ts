// When a process rests, how seldom it looks then, and what ends that. The store here is the test's own: it answers what the test says.

import { describe, expect, test } from 'vitest'
import { Quiet, type QuietPart } from '../../src/core/quiet.js'
import type { Pulse } from '../../src/core/upkeep-store.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

const NOTHING: Pulse = { isRunning: false, nextDueMs: null, nextTickMs: null, queues: [], hasUpkeep: false }
const HOUR_MS = 3_600_000

function stage(mode: 'look' | 'sleep') {
  const clock = manualClock()
  const looks: number[] = []
  const calls: string[] = []
  const found = { pulse: NOTHING, hears: true, isIdle: true }
  const store = {
    hears: () => found.hears,
    async pulse() {
      looks.push(clock.monotonic())
      return found.pulse
    },
    rest: (rests: string | null) => void calls.push(`connections ${rests}`),
    stir: () => void calls.push('told others'),
    announceDue: (dueInMs: number) => void calls.push(`told others: due in ${dueInMs}`),
    listen: () => () => {},
  }
  const part: QuietPart = {
    get isIdle() {
      return found.isIdle
    },
    queues: ['default'],
    beat: null,
    rest: () => void calls.push('rests'),
    stir: () => void calls.push('works'),
    due: ({ nextDueMs }) => void (nextDueMs === null || calls.push(`due in ${nextDueMs}`)),
  }
  const quiet = new Quiet({ store, ports: { clock, timers: clock.timers, random: seededRandom(1) }, mode })
  quiet.add(part)
  quiet.start()
  return { clock, looks, calls, found, quiet }
}

describe('a process that has nothing to do', () => {
  test.each([
    ['look', 23_999, 150],
    ['sleep', 300_001, 11],
  ] as const)('looks seldom: %s', async (mode, leastMs, mostInAnHour) => {
    const { clock, looks, quiet } = stage(mode)

    await clock.advance(20_000)
    expect(quiet.isQuiet).toBe(true)
    const from = looks.length
    await clock.advance(HOUR_MS)

    const gaps = looks.slice(1).map((atMs, index) => atMs - looks[index]!)
    expect(Math.min(...gaps)).toBeGreaterThan(leastMs)
    expect(looks.length - from).toBeGreaterThan(5)
    expect(looks.length - from).toBeLessThanOrEqual(mostInAnHour)
  })

  test('does not rest while a job is in hand, others run jobs, or wake-ups do not arrive', async () => {
    for (const hindrance of [
      { isIdle: false },
      { hears: false },
      { pulse: { ...NOTHING, isRunning: true } },
      { pulse: { ...NOTHING, queues: ['default'] } },
    ]) {
      const { clock, found, quiet } = stage('look')
      Object.assign(found, hindrance)

      await clock.advance(120_000)
      expect(quiet.isQuiet).toBe(false)
      Object.assign(found, { isIdle: true, hears: true, pulse: NOTHING })
      await clock.advance(60_000)

      expect(quiet.isQuiet).toBe(true)
    }
  })

  test('works again with the first announcement, and with a look that finds something', async () => {
    const { clock, calls, found, quiet } = stage('look')
    await clock.advance(20_000)
    calls.length = 0

    quiet.listener.ready('default', false)
    expect(calls).toEqual(['connections null', 'works'])
    await clock.advance(20_000)
    expect(quiet.isQuiet).toBe(true)
    found.pulse = { ...NOTHING, isRunning: true }
    await clock.advance(30_000)

    expect(quiet.isQuiet).toBe(false)
  })

  test('knows what becomes due, by its looks and by announcements', async () => {
    const { clock, calls, found, quiet } = stage('sleep')
    found.pulse = { ...NOTHING, nextDueMs: 90_000 }

    await clock.advance(20_000)
    quiet.listener.due(5_000)

    expect(calls).toEqual(['rests', 'connections sleep', 'due in 90000', 'due in 5000'])
  })

  test('tells the others when it begins to work, and not with every job', async () => {
    const { clock, calls, quiet } = stage('look')
    await clock.advance(20_000)
    calls.length = 0

    for (let count = 0; count < 100; count++) quiet.works()
    expect(calls.filter((call) => call === 'told others')).toHaveLength(1)
    await clock.advance(6_000)
    quiet.works()

    expect(calls.filter((call) => call === 'told others')).toHaveLength(2)
  })
})
