// What bounds the calls that wait for their enqueue: how many jobs and bytes, and until when. ◄── group-commit.ts

import { HoldfastError } from '../core/errors.js'
import type { Ports, Timer } from '../core/ports.js'
import type { Call, GroupCommitOptions } from './group-commit.js'

/** The limits of one group commit. */
export class CallLimits {
  readonly #options: GroupCommitOptions
  readonly #ports: Ports
  readonly #endOverdue: () => number | null
  #jobs = 0
  #bytes = 0
  #deadline: Timer | null = null

  /** `endOverdue` ends the calls whose time is over, and returns how long to wait until it is called again; null when no call waits. */
  constructor(options: GroupCommitOptions, ports: Ports, endOverdue: () => number | null) {
    this.#options = options
    this.#ports = ports
    this.#endOverdue = endOverdue
  }

  /** How many jobs wait. */
  get jobs(): number {
    return this.#jobs
  }

  /** Raises `buffer_full` when a call of this size has no room. A call that is alone may be larger. */
  checkRoom(bytes: number): void {
    const { bufferJobsMax, bufferBytesMax } = this.#options
    const isFull = this.#jobs >= bufferJobsMax || this.#bytes + bytes > bufferBytesMax
    if (!isFull || this.#jobs === 0) return
    throw new HoldfastError(
      'buffer_full',
      `${this.#jobs} jobs (${this.#bytes} bytes) already wait to be written, the limits are ${bufferJobsMax} and ${bufferBytesMax}: nothing was enqueued, retry when earlier calls have been answered, or make fewer calls concurrently`,
      { retryable: true, details: { waiting: this.#jobs, bytes: this.#bytes } },
    )
  }

  joined({ jobs, bytes }: Pick<Call<never>, 'jobs' | 'bytes'>): void {
    this.#jobs += jobs.length
    this.#bytes += bytes
    this.#deadline ??= this.#watch(this.#options.timeoutMs)
  }

  left({ jobs, bytes }: Pick<Call<never>, 'jobs' | 'bytes'>): void {
    this.#jobs -= jobs.length
    this.#bytes -= bytes
    if (this.#jobs > 0) return
    this.#deadline?.cancel()
    this.#deadline = null
  }

  // One timer for all, set to the first deadline of those that wait.
  #watch(ms: number): Timer {
    const look = () => {
      this.#deadline = null
      const nextMs = this.#endOverdue()
      if (nextMs !== null) this.#deadline = this.#watch(nextMs)
    }
    return this.#ports.timers.after(ms, look, { keepAlive: true })
  }
}
