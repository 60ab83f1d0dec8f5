// Enqueueing to a new name creates a queue. The number of queues that one API key may create is limited, because each queue is
// counted, listed and measured as long as it exists.

import type { Client } from '../client/client.js'
import { Refusal } from './problem.js'
import { can, type Who } from './who.js'

/** The most queues that one caller may create. */
const OF_ONE_MAX = 100
const KNOWN_MAX = 10_000
/** How long a queue is assumed to exist. It may be removed meanwhile. */
const KNOWN_MS = 60_000

export class NewQueues {
  readonly #holdfast: Client
  readonly #known = new Set<string>()
  #clearedMs = performance.now()

  constructor(holdfast: Client) {
    this.#holdfast = holdfast
  }

  /** Creates the queues that are new. Raises 409 when the caller would have created too many. An admin has no limit. */
  async open(who: Who, queues: readonly string[]): Promise<void> {
    if (can(who, 'admin')) return
    if (performance.now() - this.#clearedMs > KNOWN_MS || this.#known.size > KNOWN_MAX) {
      this.#known.clear()
      this.#clearedMs = performance.now()
    }
    const names = [...new Set(queues)].filter((queue) => !this.#known.has(queue))
    if (names.length === 0) return
    if (!(await this.#holdfast.openQueues(names, { by: who.principal, most: OF_ONE_MAX }))) {
      const text = `${who.name} may create at most ${OF_ONE_MAX} queues: use existing ones, or have some removed`
      throw new Refusal(409, 'too_many_queues', text)
    }
    for (const name of names) this.#known.add(name)
  }
}
