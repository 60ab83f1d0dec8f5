// Times calls to the store by their parts (split.ts), inside the process that makes them.

import type { Backends, Purpose } from './backends.js'
import type { CallSplit } from './split.js'
import { type ThreadReading, ThreadTimes } from './thread-times.js'

/** The state before a call. */
export interface Before {
  readonly atMs: number
  readonly client: ThreadReading
  readonly server: ThreadReading | null
}

export class SplitWatch {
  readonly #backends: Backends
  readonly #purpose: Purpose
  readonly #main = ThreadTimes.ofMain()

  constructor(backends: Backends, purpose: Purpose) {
    this.#backends = backends
    this.#purpose = purpose
  }

  /** Reads the state before a call; null where the system counts no such times. */
  before(): Before | null {
    const client = this.#main?.read() ?? null
    return client === null ? null : { atMs: performance.now(), client, server: this.#backends.read(this.#purpose) }
  }

  /** The parts of a call that has just been answered. `sinceMs` is when it began, if not when the state was read. */
  after(before: Before, sinceMs: number = before.atMs): CallSplit | null {
    const now = this.before()
    if (now === null) return null
    const total = now.atMs - sinceMs
    const clientWait = now.client.waitMs - before.client.waitMs
    // A new connection counts from zero.
    const isSame = before.server !== null && now.server !== null && now.server.runMs >= before.server.runMs
    if (!isSame) return [total, null, null, clientWait]
    return [total, now.server!.runMs - before.server!.runMs, now.server!.waitMs - before.server!.waitMs, clientWait]
  }

  /** How long this process's main thread has waited for a processor, in microseconds; 0 where that is not counted. */
  get waitedUs(): number {
    return (this.#main?.read()?.waitMs ?? 0) * 1_000
  }
}
