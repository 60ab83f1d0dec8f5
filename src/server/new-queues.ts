// Queues are made by enqueueing to them. One key may make so many and no more: names come from outside, and every queue is
// counted, listed and measured for as long as it is there.

import type { Client } from '../client/client.js'
import { Refusal } from './problem.js'
import { can, type Who } from './who.js'

/** The most queues that one key, or whoever else asks, may have made. */
const OF_ONE_MAX = 100
const KNOWN_MAX = 10_000
/** How long a queue is taken for known: one may be removed. */
const KNOWN_MS = 60_000

export class NewQueues {
  readonly #holdfast: Client
  readonly #known = new Set<string>()
  #clearedMs = performance.now()

  constructor(holdfast: Client) {
    this.#holdfast = holdfast
  }

  /** Makes those of the queues that are new. Raises 409 when they would have made too many; an admin may make any number. */
  async open(who: Who, queues: readonly string[]): Promise<void> {
    if (can(who, 'admin')) return
    if (performance.now() - this.#clearedMs > KNOWN_MS || this.#known.size > KNOWN_MAX) {
      this.#known.clear()
      this.#clearedMs = performance.now()
    }
    const names = [...new Set(queues)].filter((queue) => !this.#known.has(queue))
    if (names.length === 0) return
    if (!(await this.#holdfast.openQueues(names, { by: who.principal, most: OF_ONE_MAX }))) {
      const text = `${who.name} has made ${OF_ONE_MAX} queues, or would with these: use those, or have some removed`
      throw new Refusal(409, 'too_many_queues', text)
    }
    for (const name of names) this.#known.add(name)
  }
}
