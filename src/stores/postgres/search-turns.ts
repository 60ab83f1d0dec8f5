// Searches share one connection, statement by statement: the more ask, the longer each waits, and the server never works on two.
// A search whose caller is gone gives up its turn, or is ended on the server when it has it.

import { HoldfastError } from '../../core/errors.js'
import type { Query } from './exchange.js'
import type { Lane } from './lane.js'
import type { Row } from './statement.js'

/** What is not worth a pause, and the longest one: a statement may also have waited for a lock. */
const LONG_MS = 20
const PAUSE_MS_MAX = 250

export class SearchTurns {
  readonly #lane: Lane
  readonly #deadlineMs: number
  #last: Promise<unknown> = Promise.resolve()

  constructor(lane: Lane, deadlineMs: number) {
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

/** A statement that took long is followed by a pause as long: searches take half of one processor of the server's at most. */
async function rest(tookMs: number): Promise<void> {
  if (tookMs < LONG_MS) return
  await new Promise((resolve) => setTimeout(resolve, Math.min(tookMs, PAUSE_MS_MAX)).unref())
}

function gone(): HoldfastError {
  return new HoldfastError('closed', 'the search was ended: its caller is gone')
}
