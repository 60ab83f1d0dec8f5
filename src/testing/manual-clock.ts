// A clock that stands still until a test advances it, with timers that fire as it does.

import { checkWhole } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import type { Clock, Timer, Timers } from '../core/ports.js'

/** A clock in the hands of a test. */
export interface ManualClock extends Clock {
  /** Timers that fire when the clock passes their time. */
  readonly timers: Timers
  /**
   * Lets `ms` pass. Timers that come due fire in the order of their times, each at its own time, and what they set going
   * runs as far as it can before the next one fires. Resolves when nothing is left to run but what waits for more time
   * or for input and output.
   */
  advance(ms: number): Promise<void>
  /** Sets the wall time, as when somebody changes a machine's clock: timers and `monotonic` do not notice. */
  set(ms: number): void
}

/** Noon of a winter day: midnight is far enough for a test not to cross it by accident. */
const START_MS = Date.UTC(2026, 0, 15, 12)
/** More than any test needs; a timer that sets itself again without delay gets here. */
const FIRINGS_MAX = 100_000

interface Waiting {
  readonly dueMs: number
  readonly run: () => void
}

/** A clock that shows `startMs`, by default noon of 15 January 2026 UTC. */
export function manualClock(startMs: number = START_MS): ManualClock {
  let wallMs = startMs
  let passedMs = 0
  let soonCount = 0
  // Timers of one time fire in the order they were set, which is the order a set keeps.
  const waiting = new Set<Waiting>()

  const timers: Timers = {
    after(ms, run): Timer {
      const timer = { dueMs: passedMs + Math.max(0, ms), run }
      waiting.add(timer)
      return { cancel: () => void waiting.delete(timer) }
    },
    soon(run) {
      soonCount++
      setImmediate(() => {
        soonCount--
        run()
      })
    },
  }

  const settle = async (): Promise<void> => {
    do await new Promise((resolve) => setImmediate(resolve))
    while (soonCount > 0)
  }

  const moveTo = (ms: number): void => {
    // Nothing moves backwards when a timer's code lets time pass itself.
    const stepMs = Math.max(0, ms - passedMs)
    passedMs += stepMs
    wallMs += stepMs
  }

  return {
    now: () => wallMs,
    monotonic: () => passedMs,
    timers,
    async advance(ms) {
      checkWhole('advance: ms', ms, 0, Number.MAX_SAFE_INTEGER)
      const untilMs = passedMs + ms
      await settle()
      let firings = 0
      for (let timer = next(waiting, untilMs); timer !== null; timer = next(waiting, untilMs)) {
        if (++firings > FIRINGS_MAX) {
          throw new HoldfastError('aborted', `advance(${ms}) fired ${FIRINGS_MAX} timers and has not come to an end`)
        }
        waiting.delete(timer)
        moveTo(timer.dueMs)
        timer.run()
        await settle()
      }
      moveTo(untilMs)
    },
    set(ms) {
      wallMs = ms
    },
  }
}

function next(waiting: ReadonlySet<Waiting>, untilMs: number): Waiting | null {
  let first: Waiting | null = null
  for (const timer of waiting) {
    if (timer.dueMs <= untilMs && (first === null || timer.dueMs < first.dueMs)) first = timer
  }
  return first
}
