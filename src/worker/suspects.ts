// Jobs that were lost together with their worker before: one of them may have killed it.
//
// Few suspects run concurrently, and the store is notified before each starts, so that a crash blames those that ran and not those that
// waited beside them. A suspect that would be dead after one more crash is on its last chance: it is the only suspect until its
// settlement is confirmed, so no other suspect's crash is ever its death.

import { leaseOf } from '../core/job.js'
import { CRASHES_MAX } from '../core/limits.js'
import type { HeldJob } from './held-job.js'
import { conclude, type RunScope, runJob } from './run.js'

/** How many suspects may wait in one worker. */
export const SUSPECTS_WAITING_MAX = 256
const RELEASE_MS = 1_000
// A worker that is killed with a thousand jobs in hand makes a thousand suspects, and nearly all of them are innocent: this
// share of the slots runs them.
const SLOT_SHARE = 0.25
// With handlers in children a crash ends one child, so all jobs that one of two children had may run again together.
const SLOT_SHARE_IN_CHILDREN = 0.5
// Most poison kills soon. After this time a suspect that is still running makes room for the next.
const PROVEN_MS = 5_000

/** The suspects of one worker. */
export class Suspects {
  readonly #scope: RunScope
  readonly #runningMax: number
  #waiting: HeldJob[] = []
  #count = 0
  #running: HeldJob[] = []
  /** The suspect on its last chance: it runs, or the store has yet to confirm how it ended. */
  #lastChance: HeldJob | null = null

  constructor(scope: RunScope, concurrency: number) {
    this.#scope = scope
    this.#runningMax = Math.max(
      1,
      Math.floor(concurrency * (scope.isolation === null ? SLOT_SHARE : SLOT_SHARE_IN_CHILDREN)),
    )
  }

  /** How many wait. */
  get count(): number {
    return this.#count
  }

  /** Takes one in, or releases it when too many wait. */
  add(held: HeldJob): void {
    this.#count++
    if (this.#waiting.length < SUSPECTS_WAITING_MAX) this.#waiting.push(held)
    else this.release(held)
  }

  /** The longest-waiting suspect, which leaves the list; null when it may not start yet. */
  next(): HeldJob | null {
    while (this.#waiting.length > 0) {
      const suspect = this.#waiting[0]!
      if (suspect.phase === 'waiting' && !this.#mayStart(suspect)) return null
      this.#waiting.shift()
      if (suspect.phase === 'waiting') return suspect
    }
    return null
  }

  #mayStart(next: HeldJob): boolean {
    if (this.#lastChance !== null) return false
    if (isLastChance(next)) return this.#running.length === 0
    const nowMs = this.#scope.clock.monotonic()
    const unproven = this.#running.filter(({ startedMs }) => nowMs - startedMs < PROVEN_MS)
    return unproven.length < this.#runningMax
  }

  /** Starts one that has a slot. */
  start(held: HeldJob): void {
    this.#running.push(held)
    if (isLastChance(held)) this.#lastChance = held
    void this.#begin(held)
  }

  async #begin(held: HeldJob): Promise<void> {
    try {
      await this.#scope.store.begin([leaseOf(held)])
    } catch (error) {
      this.#scope.emit({ name: 'store.failed', during: 'begin', error: error as Error })
      this.release(held)
      return
    }
    if (held.phase === 'starting') runJob(held, this.#scope)
  }

  /** Gives one back. The delay is spread, so that suspects that came together do not come back together. */
  release(held: HeldJob): void {
    const delayMs = Math.ceil(RELEASE_MS * (1 + 2 * this.#scope.random()))
    conclude(held, this.#scope, { kind: 'released', delayMs })
  }

  /** One of them waits no longer: it started, or it ended without that. */
  left(): void {
    this.#count--
  }

  /** One of them has left its slot. */
  leftSlot(held: HeldJob): void {
    this.#running = this.#running.filter((other) => other !== held)
  }

  /** The store has confirmed how a job ended, or never will. True when others had to wait for that. */
  confirm(held: HeldJob): boolean {
    if (held !== this.#lastChance) return false
    this.#lastChance = null
    return true
  }

  all(): HeldJob[] {
    return this.#waiting.filter(({ phase }) => phase === 'waiting')
  }
}

/** Whether one more crash would be the job's death. */
function isLastChance({ crashes }: HeldJob): boolean {
  return crashes >= CRASHES_MAX - 1
}
