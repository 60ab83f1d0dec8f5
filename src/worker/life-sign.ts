// Tells the store every few seconds that this worker lives, for those who look at workers. Nothing depends on it.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import type { JobStore } from '../core/job-store.js'
import type { Ports, Timer } from '../core/ports.js'
import type { WorkerBeat } from '../core/views.js'

const BEAT_MS = 10_000

export interface LifeSignDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly read: () => WorkerBeat
  /** True while the process rests and reports its workers by itself. */
  readonly isQuiet: () => boolean
}

/** The life sign of one worker. */
export class LifeSign {
  readonly #deps: LifeSignDeps
  readonly #contact: Contact
  #timer: Timer | null = null
  #isStopped = false
  #inFlight: Promise<void> = Promise.resolve()

  constructor(deps: LifeSignDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'beat')
  }

  start(): void {
    this.#inFlight = this.#beat()
  }

  /** Sends no more, and tells the store that the worker has left. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    await this.#inFlight
    try {
      await this.#deps.store.leave(this.#deps.read().id)
    } catch (error) {
      // It is forgotten by itself when it has not been seen for a while.
      this.#contact.lost(error)
    }
  }

  async #beat(): Promise<void> {
    try {
      if (!this.#deps.isQuiet()) {
        await this.#deps.store.beat(this.#deps.read())
        this.#contact.found()
      }
    } catch (error) {
      this.#contact.lost(error)
    }
    if (this.#isStopped) return
    // A worker is at work also while it has nothing to do: it keeps its process alive until it is stopped.
    this.#timer = this.#deps.ports.timers.after(BEAT_MS, () => this.start(), { keepAlive: true })
  }
}
