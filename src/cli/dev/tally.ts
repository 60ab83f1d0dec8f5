// Counts what became of jobs while dev ran.

import type { HoldfastEvent } from '../../core/events.js'

export class Tally {
  #succeeded = 0
  #retries = 0
  #dead = 0
  #cancelled = 0
  #released = 0

  readonly hear = (event: HoldfastEvent): void => {
    if (event.name !== 'job.settled') return
    if (event.state === 'succeeded') this.#succeeded++
    else if (event.state === 'retrying') this.#retries++
    else if (event.state === 'dead') this.#dead++
    else if (event.state === 'cancelled') this.#cancelled++
    else if (event.state === 'ready') this.#released++
  }

  /** One line: how many jobs ended, and how. */
  summary(): string {
    const ran = this.#succeeded + this.#dead + this.#cancelled
    const parts = [
      `${this.#succeeded} succeeded`,
      `${this.#dead} dead`,
      ...(this.#cancelled === 0 ? [] : [`${this.#cancelled} cancelled`]),
      ...(this.#released === 0 ? [] : [`${this.#released} given back unfinished`]),
      `${this.#retries} ${this.#retries === 1 ? 'retry' : 'retries'}`,
    ]
    return `${ran} ${ran === 1 ? 'job' : 'jobs'} ran: ${parts.join(', ')}`
  }
}
