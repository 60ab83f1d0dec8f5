import { describe, expect, test } from 'vitest'
import { sleep } from '../../src/core/ports.js'
import { manualClock } from '../../src/testing/manual-clock.js'

describe('sleep', () => {
  test('it ends when its time has passed', async () => {
    const clock = manualClock()
    let isAwake = false
    void sleep(clock.timers, 100).then(() => {
      isAwake = true
    })

    await clock.advance(99)
    const early = isAwake
    await clock.advance(1)
    await clock.advance(0)

    expect([early, isAwake]).toEqual([false, true])
  })

  test('it ends immediately when its signal fires, and leaves no timer behind', async () => {
    const clock = manualClock()
    const abort = new AbortController()
    let cancelled = 0
    const timers = {
      ...clock.timers,
      after: (ms: number, run: () => void) => {
        const timer = clock.timers.after(ms, run)
        return {
          cancel: () => {
            cancelled++
            timer.cancel()
          },
        }
      },
    }
    const sleeping = sleep(timers, 100, abort.signal)

    abort.abort()
    await sleeping

    expect(cancelled).toBe(1)
  })

  test('it does not begin when its signal has fired already', async () => {
    const clock = manualClock()

    await sleep(clock.timers, 100, AbortSignal.abort())

    expect(clock.monotonic()).toBe(0)
  })
})
