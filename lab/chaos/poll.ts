// Asks again while faults prevent an answer.

import { sleep } from './sleep.js'

const PATIENCE_MS = 60_000
const EVERY_MS = 100

/** The first answer that is not null. Raises the last error after a minute. */
export async function pollUntil<T>(ask: () => Promise<T | null>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      const answer = await ask()
      if (answer !== null) return answer
    } catch (error) {
      if (performance.now() > deadline) throw error
    }
    if (performance.now() > deadline) throw new Error(`no answer within ${PATIENCE_MS} ms`)
    await sleep(EVERY_MS)
  }
}
