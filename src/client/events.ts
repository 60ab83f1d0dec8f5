// Those who listen to what happens in this process.

import type { Emit, HoldfastEvent } from '../core/events.js'

/** The listeners of one client. */
export class Events {
  readonly #listeners = new Set<Emit>()

  /** True when somebody listens: those who emit often look here first and save making the event. */
  get isHeard(): boolean {
    return this.#listeners.size > 0
  }

  on(listener: Emit): void {
    this.#listeners.add(listener)
  }

  off(listener: Emit): void {
    this.#listeners.delete(listener)
  }

  /** Calls every listener, in the order they came. What a listener throws is its own affair and stops nobody else. */
  readonly emit: Emit = (event: HoldfastEvent): void => {
    for (const listener of this.#listeners) {
      try {
        listener(event)
      } catch {
        // Watching must never change what is watched.
      }
    }
  }
}
