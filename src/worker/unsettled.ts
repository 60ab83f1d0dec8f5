// The settlements of one worker that the store has not confirmed. Jobs end faster than a slow store confirms, and each keeps its result in
// memory and would run again if the process died. So there is a limit, and no job starts beyond it.

import type { SettledJob } from '../core/job.js'
import type { HeldJob } from './held-job.js'

const BYTES_MAX = 16 * 1024 * 1024
// Smaller ones are bounded by their number: two slots' worth and a thousand.
const LARGE_BYTES = 4 * 1024

export class Unsettled {
  /** How many there may be before no more jobs start. */
  readonly max: number
  #count = 0
  #bytes = 0
  readonly #large = new Map<HeldJob, number>()

  constructor(concurrency: number) {
    // A thousand, because a fast worker ends that many while one batch is on its way.
    this.max = 2 * concurrency + 1_000
  }

  get isEmpty(): boolean {
    return this.#count === 0
  }

  get isFull(): boolean {
    return this.#count >= this.max || this.#bytes >= BYTES_MAX
  }

  add(held: HeldJob): void {
    this.#count++
    const bytes = sizeOf(held.settled!)
    if (bytes < LARGE_BYTES) return
    this.#large.set(held, bytes)
    this.#bytes += bytes
  }

  remove(held: HeldJob): void {
    this.#count--
    if (this.#large.size === 0) return
    this.#bytes -= this.#large.get(held) ?? 0
    this.#large.delete(held)
  }
}

/** About how many bytes a settlement takes on its way. */
export function sizeOf({ result, error }: SettledJob): number {
  const errorLength = error === null ? 0 : error.message.length + (error.stack?.length ?? 0)
  return 200 + (result?.length ?? 0) + errorLength
}
