// The real clock, timers and chance. Everything else in the library gets them from here, or from a test.

import { randomFillSync } from 'node:crypto'
import type { Ports, Timer } from './core/ports.js'

/** Node's timers hold no more milliseconds than this, and fire immediately when given more. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** The ports of the machine this runs on. */
export const systemPorts: Ports = {
  clock: {
    now: () => Date.now(),
    monotonic: () => performance.now(),
  },
  timers: {
    after: (ms, run, options) => startTimer(ms, run, options?.keepAlive ?? false),
    soon: (run) => {
      setImmediate(run)
    },
  },
  random: {
    float: () => Math.random(),
    fill: (target) => {
      randomFillSync(target)
    },
  },
}

function startTimer(ms: number, run: () => void, keepAlive: boolean): Timer {
  let leftMs = Math.max(0, ms)
  let timeout: NodeJS.Timeout
  const start = () => {
    const stepMs = Math.min(leftMs, TIMER_MS_MAX)
    leftMs -= stepMs
    timeout = setTimeout(leftMs > 0 ? start : run, stepMs)
    if (!keepAlive) timeout.unref()
  }
  start()
  return { cancel: () => clearTimeout(timeout) }
}
