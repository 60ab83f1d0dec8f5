// Writes the output of one worker's jobs: what gathers while one call is in flight, or within a moment, is sent together. ◄── keeper.ts

import { Contact } from '../core/contact.js'
import { isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { leaseOf } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { OutputWrite } from '../core/kept/contract.js'
import { type Ports, sleep } from '../core/ports.js'
import type { HeldJob } from './held-job.js'
import { mayWrite } from './kept-writes.js'

const BATCH_JOBS_MAX = 500
const BATCH_LENGTH_MAX = 1024 * 1024
/** A row for each job in this time at most, however small its chunks are. */
const GAP_MS = 25

interface Waiting {
  readonly held: HeldJob
  readonly offset: number
  readonly text: string
  readonly resolve: (isKept: boolean) => void
  readonly reject: (error: unknown) => void
}

/** The output of a worker's jobs, on its way to the store. */
export class OutputWrites {
  readonly #store: JobStore
  readonly #ports: Ports
  readonly #contact: Contact
  #waiting: Waiting[] = []
  #isBusy = false

  constructor(deps: { readonly store: JobStore; readonly ports: Ports; readonly emit: Emit }) {
    this.#store = deps.store
    this.#ports = deps.ports
    this.#contact = new Contact(deps, 'write')
  }

  /** Resolves when the store has answered: false when the job's lease no longer holds. */
  write(held: HeldJob, offset: number, text: string): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ held, offset, text, resolve, reject })
      if (this.#isBusy) return
      this.#isBusy = true
      this.#ports.timers.soon(() => void this.#flushAll())
    })
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const startedMs = this.#ports.clock.monotonic()
      await this.#flush(this.#take())
      const leftMs = startedMs + GAP_MS - this.#ports.clock.monotonic()
      if (leftMs > 0 && this.#waiting.length > 0) await sleep(this.#ports.timers, leftMs)
    }
    this.#isBusy = false
  }

  /** The next chunks, by job. */
  #take(): Map<HeldJob, Waiting[]> {
    const batch = new Map<HeldJob, Waiting[]>()
    let [count, length] = [0, 0]
    for (const one of this.#waiting) {
      if (length >= BATCH_LENGTH_MAX || (batch.size >= BATCH_JOBS_MAX && !batch.has(one.held))) break
      const chunks = batch.get(one.held)
      if (chunks === undefined) batch.set(one.held, [one])
      else chunks.push(one)
      count++
      length += one.text.length
    }
    this.#waiting.splice(0, count)
    return batch
  }

  /** Never raises: the answer goes to those who wait. */
  async #flush(batch: ReadonlyMap<HeldJob, readonly Waiting[]>): Promise<void> {
    const jobs = [...batch.values()]
    try {
      const answers = await this.#store.write(jobs.map(writeOf))
      this.#contact.found()
      for (const [index, chunks] of jobs.entries()) for (const { resolve } of chunks) resolve(answers[index] === true)
    } catch (error) {
      const isRetryable = isHoldfastError(error) && error.retryable
      if (isRetryable) {
        const waitMs = this.#contact.lost(error)
        const going = jobs.filter(([first]) => mayWrite(first!.held)).flat()
        for (const { held, reject } of jobs.flat()) if (!mayWrite(held)) reject(error)
        this.#waiting.unshift(...going)
        if (going.length > 0) await sleep(this.#ports.timers, waitMs)
      } else if (jobs.length > 1) {
        // What the store refuses of one job must not hold up the others.
        for (const [held, chunks] of batch) await this.#flush(new Map([[held, chunks]]))
      } else for (const { reject } of jobs.flat()) reject(error)
    }
  }
}

function writeOf(chunks: readonly Waiting[]): OutputWrite {
  const [{ held, offset }] = chunks as [Waiting]
  return { ...leaseOf(held), offset, chunks: chunks.map(({ text }) => text) }
}
