// Another program that uses Holdfast in the same database, in its own schema and through the same pooler. Its jobs must not end up
// with others, nor others' jobs with it.

import { type Holdfast, openHoldfast } from '../../../src/holdfast.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { JOBS } from '../load.js'
import { sleep } from '../sleep.js'

const SCHEMA = 'neighbour'
const EVERY_MS = 100

export class Neighbour {
  readonly #holdfast: Holdfast
  readonly #ending = new AbortController()
  readonly #enqueueing: Promise<void>

  private constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast
    this.#enqueueing = this.#enqueue()
  }

  static async open(url: string): Promise<Neighbour> {
    const store = await postgresStore(url, { schema: SCHEMA, deadlineMs: 3_000, connectMs: 3_000 })
    const holdfast = await openHoldfast(store, { name: SCHEMA })
    const handlers = [JOBS.fast.handle(() => {})]
    await holdfast.worker({ handlers, queues: ['gen'], pollMax: '1s' }).start()
    return new Neighbour(holdfast)
  }

  async #enqueue(): Promise<void> {
    for (let seq = 0; !this.#ending.signal.aborted; seq++) {
      const payload = { seq, kind: 'fast', key: `neighbour-${seq}`, ms: 1, failures: 0, effect: 'none' } as const
      // It suffers the same faults as the others; the store records the result.
      const options = { signal: this.#ending.signal }
      await this.#holdfast.enqueue(JOBS.fast, payload, options).catch(() => {})
      await sleep(EVERY_MS)
    }
  }

  async close(): Promise<void> {
    this.#ending.abort()
    await this.#enqueueing
    await this.#holdfast.close()
  }
}
