// A call of enqueue or enqueueMany until it is answered. ◄── group-commit.ts

import type { NewJob } from '../core/job.js'

/** A flush is cut here, so that one statement stays short and its memory bounded. */
const FLUSH_JOBS_MAX = 1_000
const FLUSH_BYTES_MAX = 8 * 1024 * 1024

/** The room in one flush. The first call fits, however large it is. */
export class FlushRoom {
  #jobs = 0
  #bytes = 0

  /** Whether a call fits beside those before it. If so, its room is taken. */
  takes({ jobs, bytes }: { readonly jobs: readonly NewJob[]; readonly bytes: number }): boolean {
    const isFull = this.#jobs + jobs.length > FLUSH_JOBS_MAX || this.#bytes + bytes > FLUSH_BYTES_MAX
    if (isFull && this.#jobs > 0) return false
    this.#jobs += jobs.length
    this.#bytes += bytes
    return true
  }
}

/** One call that waits. */
export class Call<Result> {
  /** One job, or those of an enqueueMany, which are written together or not at all. */
  readonly jobs: readonly NewJob[]
  readonly bytes: number
  readonly deadlineMs: number
  /** True once it was part of a flush, after which nobody but the store knows whether it was written. */
  isSent = false
  isEnded = false
  /** The one of its jobs whose key it waits for, see held-calls.ts. */
  held: NewJob | null = null
  onEnd: (() => void) | null = null
  readonly resolve: (result: Result) => void
  readonly reject: (error: Error) => void

  constructor(
    jobs: readonly NewJob[],
    { bytes, deadlineMs }: { readonly bytes: number; readonly deadlineMs: number },
    resolve: (result: Result) => void,
    reject: (error: Error) => void,
  ) {
    this.jobs = jobs
    this.bytes = bytes
    this.deadlineMs = deadlineMs
    this.resolve = resolve
    this.reject = reject
  }
}
