// What a worker looks after at regular times while it has jobs in hand: cancels that no wake-up announced, notes that
// want to be written, and jobs that have waited here too long.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import { leaseOf } from '../core/job.js'
import type { JobStore, Watch } from '../core/job-store.js'
import type { Ports, Timer } from '../core/ports.js'
import { writeNotes } from './notes.js'
import type { Slots } from './slots.js'

// A cancel from another process arrives within a second even when its wake-up is lost: a job this old is asked about, and
// at most one round passes before that.
const PATROL_MS = 700
const WATCHED_AFTER_MS = 200

export interface PatrolDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly slots: Slots
  readonly onWatched: (watch: Watch) => void
}

/** The rounds of one worker. */
export class Patrol {
  readonly #deps: PatrolDeps
  readonly #contact: Contact
  #timer: Timer | null = null
  #inFlight: Promise<void> | null = null

  constructor(deps: PatrolDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'watch')
  }

  /** Goes on rounds as long as there are jobs in hand. Called whenever some arrive. */
  start(): void {
    this.#timer ??= this.#deps.ports.timers.after(PATROL_MS, () => this.#round())
  }

  async stop(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#inFlight
  }

  #round(): void {
    this.#timer = null
    const { slots } = this.#deps
    slots.releaseOverdue()
    if (slots.isEmpty) return
    this.#inFlight ??= this.#askStore().finally(() => {
      this.#inFlight = null
    })
    this.start()
  }

  async #askStore(): Promise<void> {
    const { store, ports, slots } = this.#deps
    const oldMs = ports.clock.monotonic() - WATCHED_AFTER_MS
    const old = slots.running.filter((held) => held.startedMs <= oldMs && held.phase === 'running')
    if (old.length === 0) return
    try {
      await writeNotes(old, this.#deps)
      this.#deps.onWatched(await store.watch(old.map(leaseOf)))
      this.#contact.found()
    } catch (error) {
      // The next round tries again.
      this.#contact.lost(error)
    }
  }
}
