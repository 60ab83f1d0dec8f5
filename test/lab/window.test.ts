// Windows over a worker that keeps draining.

import { describe, expect, test } from 'vitest'
import { WindowClock, type WindowRequest } from '../../lab/bench/growth/window.js'

const request = (changes: Partial<WindowRequest>): WindowRequest => ({
  kind: 'window',
  jobs: null,
  secondsMax: 30,
  jobsPerSecond: null,
  fromClaim: false,
  ...changes,
})
const claim = (changes: { sentMs?: number; tookMs?: number; jobs?: number } = {}) => ({
  sentMs: performance.now(),
  tookMs: 1,
  jobs: 10,
  ...changes,
})

describe('a window', () => {
  test('ends with the settlement that reaches its jobs, and counts those that came with it', async () => {
    const clock = new WindowClock()
    clock.succeeded(500)

    const window = clock.window(request({ jobs: 20 }))
    clock.succeeded(15)
    clock.succeeded(15)
    clock.succeeded(15)

    expect((await window).jobs).toBe(30)
    expect(clock.total).toBe(545)
  })

  test('ends after its time, however few jobs it has', async () => {
    const clock = new WindowClock()

    const window = clock.window(request({ jobs: 1_000, secondsMax: 0.01 }))
    clock.succeeded(1)

    expect((await window).jobs).toBe(1)
  })

  test('leaves out claims in progress when it began, and those that found no jobs', async () => {
    const clock = new WindowClock()
    const before = claim({ sentMs: performance.now() - 1, tookMs: 7 })

    const window = clock.window(request({ jobs: 1 }))
    clock.claimed(before)
    clock.claimed(claim({ tookMs: 2, jobs: 0 }))
    clock.claimed(claim({ tookMs: 3 }))
    clock.succeeded(1)

    expect(await window).toMatchObject({ claimsMs: [3], claimedJobs: 10 })
  })

  test('that waits for jobs begins when the first claim that finds jobs is sent', async () => {
    const clock = new WindowClock()

    const window = clock.window(request({ jobs: 10, fromClaim: true }))
    clock.claimed(claim({ jobs: 0, sentMs: performance.now() - 60_000 }))
    clock.claimed(claim({ sentMs: performance.now() - 2_000 }))
    clock.succeeded(10)

    const { seconds, claimsMs } = await window
    expect(seconds).toBeGreaterThanOrEqual(2)
    expect(seconds).toBeLessThan(60)
    expect(claimsMs).toEqual([1])
  })
})
