// How one activity gets on with the store: says when contact is lost and found again, and how long to wait between tries.

import { asError } from './errors.js'
import type { Emit } from './events.js'
import type { Ports } from './ports.js'

const FIRST_WAIT_MS = 100
// Short enough that the first job starts within two seconds of a store's return; one try a second is no storm.
const LONGEST_WAIT_MS = 1_000

/** The contact of one activity. Its name appears in the events as `during`. */
export class Contact {
  readonly #ports: Ports
  readonly #emit: Emit
  readonly #during: string
  #failures = 0
  #lostAtMs = 0

  constructor(deps: { readonly ports: Ports; readonly emit: Emit }, during: string) {
    this.#ports = deps.ports
    this.#emit = deps.emit
    this.#during = during
  }

  /** True from a failed call until one succeeds. */
  get isLost(): boolean {
    return this.#failures > 0
  }

  /** Notes a failed call and returns how long to wait before the next one: longer each time, with jitter. */
  lost(thrown: unknown): number {
    if (this.#failures === 0) this.#lostAtMs = this.#ports.clock.monotonic()
    const fullMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(this.#failures, 10))
    this.#failures++
    this.#emit({ name: 'store.failed', during: this.#during, error: asError(thrown) })
    return Math.ceil(fullMs * (0.5 + this.#ports.random.float() / 2))
  }

  /** Notes a call that succeeded. */
  found(): void {
    if (this.#failures === 0) return
    this.#failures = 0
    const afterMs = this.#ports.clock.monotonic() - this.#lostAtMs
    this.#emit({ name: 'store.recovered', during: this.#during, afterMs })
  }
}
