// Searches share one connection and take turns, statement by statement. With more callers each waits longer, and the server never runs
// two searches concurrently. When its caller is gone, a search leaves its turn, or its statement is cancelled on the server.

import { HoldfastError } from '../../core/errors.js'
import type { Query } from './exchange.js'
import type { Row } from './statement.js'
import type { StatementLane } from './statement-lane.js'

/** Shorter statements are followed by no pause. A pause has a maximum, because a statement may also have waited for a lock. */
const LONG_MS = 20
const PAUSE_MS_MAX = 250

export class SearchTurns {
  readonly #lane: StatementLane
  readonly #deadlineMs: number
  #last: Promise<unknown> = Promise.resolve()

  constructor(lane: StatementLane, deadlineMs: number) {
    this.#lane = lane
    this.#deadlineMs = deadlineMs
  }

  /** Runs a query when those before it are done. Raises `closed` when `signal` is aborted. */
  run(query: Query, signal: AbortSignal | undefined): Promise<Row[]> {
    let beganMs = 0
    const turn = this.#last.then(() => {
      beganMs = performance.now()
      return this.#run(query, signal)
    })
    this.#last = turn.catch(() => {}).then(() => rest(performance.now() - beganMs))
    return turn
  }

  async #run(query: Query, signal: AbortSignal | undefined): Promise<Row[]> {
    if (signal === undefined) return this.#lane.query(query, this.#deadlineMs)
    if (signal.aborted) throw gone()
    let cancelling: Promise<void> | null = null
    const cancel = () => {
      cancelling = this.#lane.cancelRunning()
    }
    signal.addEventListener('abort', cancel, { once: true })
    try {
      return await this.#lane.query(query, this.#deadlineMs)
    } catch (error) {
      throw signal.aborted ? gone() : error
    } finally {
      signal.removeEventListener('abort', cancel)
      // Until the server has taken note of it, the cancel could hit the next search.
      await cancelling
    }
  }
}

/** A long statement is followed by a pause of the same length, so that searches use at most half of one of the server's processors. */
async function rest(tookMs: number): Promise<void> {
  if (tookMs < LONG_MS) return
  await new Promise((resolve) => setTimeout(resolve, Math.min(tookMs, PAUSE_MS_MAX)).unref())
}

function gone(): HoldfastError {
  return new HoldfastError('closed', 'the search was ended: its caller is gone')
}
