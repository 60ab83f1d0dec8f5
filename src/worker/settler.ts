// Sends settlements to the store. They gather while one call is in flight, and until the pace allows the next; then they are sent
// together. Each lease is kept and extended until the store has confirmed. No settlement is given up silently. What the store cannot take
// now is sent again. A row that it refuses is found, and sent without what it may have refused.
// ◄── run.ts, through worker.ts · next: stores/postgres/settle.ts

import { Contact } from '../core/contact.js'
import { HoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { JobStore, SettleResult } from '../core/job-store.js'
import { PACES, Pace } from '../core/pace.js'
import { type Ports, sleep } from '../core/ports.js'
import type { HeldJob } from './held-job.js'
import { writeNotes } from './notes.js'
import { isRefusal, strip } from './refused.js'
import { sizeOf } from './unsettled.js'

const BATCH_JOBS_MAX = 1_000
const BATCH_BYTES_MAX = 4 * 1024 * 1024
// A batch of this size is worth its round trip immediately. A smaller one keeps the pace of settlements (core/pace.ts). Its jobs would
// run again if the process died meanwhile.
const BATCH_WORTH = 64
// A job that its handler's transaction, left open, holds locked is sent again after this time.
const LOCKED_WAIT_MS = 1_000

export interface SettlerDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  /** The store has answered for this job, or never will: this worker no longer holds its lease. */
  readonly onDone: (held: HeldJob, answer: SettleResult | null) => void
  /** A batch of N was answered, and there is room again. */
  readonly onFlushed: (jobs: number) => void
}

/** The settler of one worker. */
export class Settler {
  readonly #deps: SettlerDeps
  readonly #contact: Contact
  readonly #giveUp = new AbortController()
  #gathering: HeldJob[] = []
  #head = 0
  #isBusy = false
  #locked: HeldJob[] = []
  readonly #pace = new Pace(PACES.settle)
  #startedMs = Number.NEGATIVE_INFINITY
  #onIdle: (() => void)[] = []

  constructor(deps: SettlerDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, 'settle')
  }

  /** Takes a job whose settlement is decided. It is sent together with all that end in the same turn of the event loop. */
  add(held: HeldJob): void {
    this.#gathering.push(held)
    if (this.#isBusy) return
    this.#isBusy = true
    this.#deps.ports.timers.soon(() => void this.#flushAll())
  }

  /** Waits for more settlements, if the last batch was sent a moment ago. */
  async #gather(): Promise<void> {
    if (this.#gathering.length - this.#head >= BATCH_WORTH || this.#onIdle.length > 0) return
    const { clock, timers } = this.#deps.ports
    const waitMs = this.#pace.waitMs(clock.monotonic())
    if (waitMs > 0) await sleep(timers, waitMs, this.#giveUp.signal)
  }

  /** Resolves when every settlement has been answered. */
  whenIdle(): Promise<void> {
    if (!this.#isBusy && this.#locked.length === 0) return Promise.resolve()
    return new Promise((resolve) => this.#onIdle.push(resolve))
  }

  /** Sends nothing again: a worker that stops cannot wait for a store that does not come back. The leases run out. */
  giveUp(): void {
    this.#giveUp.abort()
  }

  async #flushAll(): Promise<void> {
    const { clock } = this.#deps.ports
    while (this.#head < this.#gathering.length) {
      await this.#gather()
      const batch = this.#takeBatch()
      const startedMs = clock.monotonic()
      const ageMs = (startedMs - this.#startedMs) / batch.length
      this.#startedMs = startedMs
      await this.#flush(batch)
      this.#pace.learn({ startedMs, endedMs: clock.monotonic(), ageMs })
      this.#deps.onFlushed(batch.length)
    }
    this.#isBusy = false
    this.#reportIdle()
  }

  #reportIdle(): void {
    if (this.#isBusy || this.#locked.length > 0) return
    for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  #takeBatch(): HeldJob[] {
    const from = this.#head
    let bytes = 0
    while (this.#head < this.#gathering.length && this.#head - from < BATCH_JOBS_MAX && bytes < BATCH_BYTES_MAX) {
      bytes += sizeOf(this.#gathering[this.#head++]!.settled!)
    }
    const batch = this.#gathering.slice(from, this.#head)
    if (this.#head === this.#gathering.length) {
      this.#gathering = []
      this.#head = 0
    }
    return batch
  }

  /** Sends a batch until it is answered. Never raises. */
  async #flush(batch: readonly HeldJob[]): Promise<void> {
    for (;;) {
      try {
        await writeNotes(batch, this.#deps)
        const answers = await this.#deps.store.settle(batch.map((held) => held.settled!))
        this.#contact.found()
        this.#answered(batch, answers)
        return
      } catch (error) {
        const waitMs = this.#contact.lost(error)
        if (isRefusal(error)) return this.#isolate(batch, error)
        if (this.#giveUp.signal.aborted) return this.#abandon(batch)
        await sleep(this.#deps.ports.timers, waitMs, this.#giveUp.signal)
      }
    }
  }

  #answered(batch: readonly HeldJob[], answers: readonly SettleResult[]): void {
    for (let index = 0; index < batch.length; index++) {
      const held = batch[index]!
      let answer = answers[index]
      if (answer?.id !== held.id) answer = answers.find(({ id, fence }) => id === held.id && fence === held.fence)
      if (answer?.result === 'locked') void this.#sendLater(held)
      else this.#deps.onDone(held, answer ?? null)
    }
  }

  // An open transaction has the row locked. The lease is extended meanwhile, like that of any job in hand.
  async #sendLater(held: HeldJob): Promise<void> {
    if (this.#locked.push(held) > 1) return
    await sleep(this.#deps.ports.timers, LOCKED_WAIT_MS, this.#giveUp.signal)
    const locked = this.#locked
    this.#locked = []
    if (this.#giveUp.signal.aborted) this.#abandon(locked)
    else for (const one of locked) this.add(one)
    this.#reportIdle()
  }

  // One bad row must not hold up its neighbours: halve until it is alone, then send it without result and error.
  async #isolate(batch: readonly HeldJob[], error: unknown): Promise<void> {
    if (batch.length > 1) {
      const middle = batch.length >> 1
      await this.#flush(batch.slice(0, middle))
      await this.#flush(batch.slice(middle))
      return
    }
    const held = batch[0]!
    if (held.isStripped) return this.#abandon(batch)
    held.isStripped = true
    held.settled = strip(held.settled!, error)
    await this.#flush(batch)
  }

  // The events of the failed calls say why. The lease runs out, and rescue settles the job.
  #abandon(batch: readonly HeldJob[]): void {
    for (const held of batch) {
      const error = new HoldfastError(
        'store_unavailable',
        `the settlement of job ${held.id} (fence ${held.fence}) never reached the store: its lease runs out and it is rescued`,
      )
      this.#deps.emit({ name: 'store.failed', during: 'settle', error })
      this.#deps.onDone(held, null)
    }
  }
}
