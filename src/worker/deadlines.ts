// Timeouts of running jobs and the grace after they were told to stop. One timer for all of them, set to the nearest: a
// job that ends before its time never touches it.

import { showMs } from '../core/duration.js'
import type { Ports, Timer } from '../core/ports.js'
import type { HeldJob } from './held-job.js'

/** How long a handler that was told to stop may take before its slot is given to another job. */
export const GRACE_MS = 5_000
// Timers of the runtime cannot wait longer than 24 days; one that fires early only looks and waits again.
const LOOK_MS_MAX = 3_600_000

export interface DeadlinesDeps {
  readonly ports: Ports
  readonly running: () => readonly HeldJob[]
  /** The handler did not end within its grace. */
  readonly onStuck: (held: HeldJob) => void
}

/** The deadlines of one worker's running jobs. */
export class Deadlines {
  readonly #deps: DeadlinesDeps
  #timer: Timer | null = null
  #nextMs = Number.POSITIVE_INFINITY

  constructor(deps: DeadlinesDeps) {
    this.#deps = deps
  }

  /** Looks after a job that is starting now. */
  start(held: HeldJob): void {
    const { timeoutMs } = held.limits
    if (timeoutMs !== null) this.#set(held, held.startedMs + timeoutMs)
  }

  /** Gives a job that was told to stop its grace. */
  grace(held: HeldJob): void {
    this.#set(held, this.#deps.ports.clock.monotonic() + GRACE_MS)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#nextMs = Number.POSITIVE_INFINITY
  }

  #set(held: HeldJob, deadlineMs: number): void {
    held.deadlineMs = deadlineMs
    if (deadlineMs < this.#nextMs) this.#arm(deadlineMs)
  }

  #arm(deadlineMs: number): void {
    const { clock, timers } = this.#deps.ports
    this.#timer?.cancel()
    this.#nextMs = deadlineMs
    const waitMs = Math.min(LOOK_MS_MAX, Math.max(0, Math.ceil(deadlineMs - clock.monotonic())))
    this.#timer = timers.after(waitMs, () => this.#look())
  }

  #look(): void {
    const nowMs = this.#deps.ports.clock.monotonic()
    this.#nextMs = Number.POSITIVE_INFINITY
    // A copy, because a job that is given up leaves the list.
    for (const held of [...this.#deps.running()]) if (held.deadlineMs <= nowMs) this.#reach(held)
    let nextMs = Number.POSITIVE_INFINITY
    for (const held of this.#deps.running()) nextMs = Math.min(nextMs, held.deadlineMs)
    if (nextMs < this.#nextMs) this.#arm(nextMs)
  }

  #reach(held: HeldJob): void {
    if (held.abortCause !== null) {
      // Once more later: a child that is ended has its own time for it.
      this.grace(held)
      this.#deps.onStuck(held)
      return
    }
    // The grace first: a listener of the signal may end the job immediately.
    this.grace(held)
    const { job, limits } = held
    held.abort('timed_out', `attempt ${job.attempt} of "${job.type}" ran longer than ${showMs(limits.timeoutMs ?? 0)}`)
  }
}
