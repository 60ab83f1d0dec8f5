// What a worker does when it hears that a job should be cancelled. A notification is a hint: anyone who can connect to the
// database can send one. So the store is asked whether the cancel was really requested, for many hints in one question, and not
// more often than the gap below, so that a flood of forged hints costs the store no more than a steady trickle.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import { leaseOf } from '../core/job.js'
import { BATCH_MAX, type JobStore, type Watch } from '../core/job-store.js'
import type { Ports, Timer } from '../core/ports.js'
import type { HeldJob } from './held-job.js'
import type { Slots } from './slots.js'

/** A hint after a quiet time is looked into immediately; the next ones share a look this much later. */
const GAP_MS = 100
/** Beyond this many different ids, all jobs in hand are asked about. */
const IDS_MAX = 1_000
const ID_LENGTH = 36

export interface CancelHintsDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly slots: Slots
  readonly onWatched: (watch: Watch) => void
}

/** The hints one worker has heard and not yet looked into. */
export class CancelHints {
  readonly #deps: CancelHintsDeps
  readonly #contact: Contact
  readonly #ids = new Set<string>()
  #isForAll = false
  #nextLookMs = Number.NEGATIVE_INFINITY
  #timer: Timer | null = null
  #inFlight: Promise<void> | null = null

  constructor(deps: CancelHintsDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'watch')
  }

  /** Somebody says that a cancel of this job was requested. */
  hear(id: string): void {
    if (id.length !== ID_LENGTH) return
    if (this.#ids.size < IDS_MAX) this.#ids.add(id)
    else this.#isForAll = true
    this.#lookInTime()
  }

  /** Forgets what it heard, and waits for a look in flight. */
  async stop(): Promise<void> {
    this.#ids.clear()
    this.#timer?.cancel()
    this.#timer = null
    await this.#inFlight
  }

  #lookInTime(): void {
    if (this.#timer !== null || this.#inFlight !== null || this.#ids.size === 0) return
    const { clock, timers } = this.#deps.ports
    const waitMs = this.#nextLookMs - clock.monotonic()
    if (waitMs <= 0) this.#look()
    else {
      this.#timer = timers.after(Math.ceil(waitMs), () => {
        this.#timer = null
        this.#look()
      })
    }
  }

  #look(): void {
    const { slots, ports } = this.#deps
    const meant = this.#isForAll ? slots.inHand() : slots.inHand().filter(({ id }) => this.#ids.has(id))
    this.#ids.clear()
    this.#isForAll = false
    this.#nextLookMs = ports.clock.monotonic() + GAP_MS
    if (meant.length === 0) return
    this.#inFlight = this.#askStore(meant).finally(() => {
      this.#inFlight = null
      this.#lookInTime()
    })
  }

  async #askStore(meant: readonly HeldJob[]): Promise<void> {
    const leases = meant.map(leaseOf)
    try {
      for (let from = 0; from < leases.length; from += BATCH_MAX) {
        this.#deps.onWatched(await this.#deps.store.watch(leases.slice(from, from + BATCH_MAX)))
      }
      this.#contact.found()
    } catch (error) {
      // The next patrol or heartbeat finds a cancel that was requested.
      this.#contact.lost(error)
    }
  }
}
