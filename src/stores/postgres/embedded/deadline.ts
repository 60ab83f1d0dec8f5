// Waiting with an end. A deadline is a moment of performance.now(), which no change of the clock moves.

import { setTimeout as sleep } from 'node:timers/promises'

/** The deadline that many milliseconds from now. */
export function deadlineIn(ms: number): number {
  return performance.now() + ms
}

/** Milliseconds left until a deadline, at least 1: timers take 0 for "none". */
export function remainingMs(deadline: number): number {
  return Math.max(1, Math.round(deadline - performance.now()))
}

/** Waits without keeping the Node process alive; see holdOpen. */
export async function pause(ms: number): Promise<void> {
  await sleep(ms, undefined, { ref: false })
}

/**
 * Keeps the Node process alive until the promise settles. Everything in this folder waits on timers and sockets
 * that do not, because most of it is background work; a caller who awaits an answer must get one all the same.
 */
export async function holdOpen<T>(work: Promise<T>): Promise<T> {
  const hold = setInterval(() => {}, 60_000)
  try {
    return await work
  } finally {
    clearInterval(hold)
  }
}
