// Queues that are listed already. A queue is listed with its first job, and an enqueue writes that only for names it does not know.

import type { NewJob } from '../../core/job.js'
import type { Database, Send } from './database.js'
import { knowQueues } from './queues.js'

// Names are remembered to save a statement; a program that makes up thousands of names pays for it again.
const KNOWN_QUEUES_MAX = 10_000

// How long a queue is taken for known: one that was removed meanwhile is listed again after it.
const REMEMBERED_MS = 60_000

// How long new names go unlisted after one of them was found to be in somebody's open transaction.
const ASK_AGAIN_MS = 1_000

/** The queues that one store knows. */
export class KnownQueues {
  readonly #db: Database
  readonly #max: number
  readonly #names = new Set<string>()
  #rememberedMs = performance.now()
  #askAgainMs = 0

  constructor(db: Database, max: number) {
    this.#db = db
    this.#max = max
  }

  /** Lists the queues of these jobs, unless there would be more than `max`. Null, and not a promise, when there is nothing to write:
   *  every enqueue asks. */
  add(jobs: readonly NewJob[], max: number | null = this.#max): Promise<void> | null {
    const nowMs = performance.now()
    // Some process may have removed one meanwhile.
    if (nowMs - this.#rememberedMs > REMEMBERED_MS) {
      this.#rememberedMs = nowMs
      this.#names.clear()
    }
    if (nowMs < this.#askAgainMs || jobs.every(({ queue }) => this.#names.has(queue))) return null
    return this.#list([...new Set(jobs.map(({ queue }) => queue).filter((queue) => !this.#names.has(queue)))], max)
  }

  async #list(fresh: readonly string[], max: number | null): Promise<void> {
    // Not behind an operator's calls: an enqueue waits for this.
    const send: Send = (sql, values) => this.#db.send('enqueue', sql, values)
    if ((await knowQueues(this.#db, send, fresh, { max })) === 'in writing') {
      this.#askAgainMs = performance.now() + ASK_AGAIN_MS
      return
    }
    if (this.#names.size > KNOWN_QUEUES_MAX) this.#names.clear()
    for (const queue of fresh) this.#names.add(queue)
  }

  /** The server is another one, and may not know what was listed last. */
  forgetAll(): void {
    this.#names.clear()
  }

  forget(name: string): void {
    this.#names.delete(name)
  }
}
