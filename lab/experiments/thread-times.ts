// How long a thread has run and how long it has waited for a processor, as Linux counts it.

import { closeSync, openSync, readFileSync, readSync } from 'node:fs'

/** Milliseconds since the thread began. */
export interface ThreadReading {
  readonly runMs: number
  /** Ready to run, and no processor was free. Linux calls it the run-queue delay. */
  readonly waitMs: number
}

const BYTES = 96
const NS = 1e6

/**
 * Reads the times of one thread again and again. One reading takes about 4 µs. Linux adds the time of a thread that is running at
 * this moment at its next tick (1 to 4 ms); that of a thread that sleeps or waits is exact.
 */
export class ThreadTimes {
  readonly #file: number
  readonly #bytes = Buffer.alloc(BYTES)

  private constructor(file: number) {
    this.#file = file
  }

  /** The main thread of this process; null where the system counts no such times. */
  static ofMain(): ThreadTimes | null {
    return ThreadTimes.#open('/proc/self/schedstat')
  }

  /** A process of a PostgreSQL server on this machine; null when it can't be seen from here. */
  static ofBackend(pid: number): ThreadTimes | null {
    try {
      // The number may belong to another program here if the server runs on another machine.
      if (!readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('postgres')) return null
    } catch {
      return null
    }
    return ThreadTimes.#open(`/proc/${pid}/schedstat`)
  }

  static #open(path: string): ThreadTimes | null {
    try {
      return new ThreadTimes(openSync(path, 'r'))
    } catch {
      return null
    }
  }

  /** The times so far; null when the thread has ended. */
  read(): ThreadReading | null {
    try {
      return parseTimes(this.#bytes.toString('latin1', 0, readSync(this.#file, this.#bytes, 0, BYTES, 0)))
    } catch {
      return null
    }
  }

  close(): void {
    closeSync(this.#file)
  }
}

/** Reads a line of schedstat: nanoseconds of running, nanoseconds of waiting, number of turns. */
export function parseTimes(line: string): ThreadReading | null {
  const found = /^(\d+) (\d+) \d+/.exec(line)
  return found === null ? null : { runMs: Number(found[1]) / NS, waitMs: Number(found[2]) / NS }
}
