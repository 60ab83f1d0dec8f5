// What this process has done, counted by queue and told to the store every few seconds. For showing alone: counts that
// cannot be told are dropped, and no job waits for them.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import type { SettledJob } from '../core/job.js'
import { BATCH_MAX } from '../core/job-store.js'
import { NO_TALLY, type QueueTally, type TallySink } from '../core/operating.js'
import type { Ports, Timer } from '../core/ports.js'
import type { JobState } from '../core/states.js'
import type { UpkeepStore } from '../core/upkeep-store.js'

const TOLD_EVERY_MS = 5_000

export interface TallyDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly emit: Emit
}

type Counts = { -readonly [part in keyof QueueTally]: QueueTally[part] }

/** The counts of one process. */
export class Tally implements TallySink {
  readonly #deps: TallyDeps
  readonly #contact: Contact
  #counts = new Map<string, Counts>()
  #timer: Timer | null = null
  #inFlight: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(deps: TallyDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'tally')
  }

  enqueued(queue: string, count: number): void {
    if (count > 0) this.#of(queue).enqueued += count
  }

  ended(
    { queue, error, ranMs }: Pick<SettledJob, 'queue' | 'error' | 'ranMs'>,
    state: JobState,
    waitMs: number | null,
  ): void {
    const counts = this.#of(queue)
    counts.claimed++
    if (error !== null) counts.failed++
    count(counts, state)
    if (ranMs !== null) counts.runMsTotal += ranMs
    if (waitMs !== null) counts.waitMsTotal += Math.max(0, waitMs)
  }

  rescued(queue: string, state: JobState): void {
    const counts = this.#of(queue)
    counts.rescued++
    counts.failed++
    count(counts, state)
  }

  #of(queue: string): Counts {
    let counts = this.#counts.get(queue)
    if (counts === undefined) {
      counts = { queue, ...NO_TALLY }
      this.#counts.set(queue, counts)
    }
    if (this.#timer === null && !this.#isClosed) {
      this.#timer = this.#deps.ports.timers.after(TOLD_EVERY_MS, () => {
        this.#timer = null
        this.#inFlight = this.#tell()
      })
    }
    return counts
  }

  /** Tells what is left and ends. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    await this.#inFlight
    await this.#tell()
  }

  async #tell(): Promise<void> {
    const counts = [...this.#counts.values()].slice(0, BATCH_MAX)
    if (counts.length === 0) return
    this.#counts = new Map()
    try {
      await this.#deps.store.tally(counts)
      this.#contact.found()
    } catch (error) {
      // Told once: while the store is away the others say so often enough.
      if (!this.#contact.isLost) this.#contact.lost(error)
    }
  }
}

function count(counts: Counts, state: JobState): void {
  if (state === 'succeeded') counts.succeeded++
  else if (state === 'retrying') counts.retried++
  else if (state === 'dead') counts.dead++
  else if (state === 'cancelled') counts.cancelled++
}
