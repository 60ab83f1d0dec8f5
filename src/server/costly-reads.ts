// Limits expensive reads: searches, counts, series. Only a few run concurrently, and fewer for one caller. The rest wait their
// turn, so a caller with many searches slows down itself and not others.

import { Refusal } from './problem.js'

/** How many run concurrently: for one caller, and in total. */
const OF_ONE_MAX = 2
const OF_ALL_MAX = 6
/** How many may wait. */
const WAITING_OF_ONE_MAX = 32
const WAITING_OF_ALL_MAX = 512
/** How long one waits for its turn. An idle connection is closed later than this, so the caller gets an answer. */
const WAIT_MS = 20_000

/** The reads of one caller. */
interface Backlog {
  running: number
  /** Called in order, each when it is its turn. */
  readonly waiting: (() => void)[]
}

export class CostlyReads {
  /** By caller, the one whose last turn is longest ago first. */
  readonly #backlogs = new Map<string, Backlog>()
  readonly #waitMs: number
  #running = 0
  #waiting = 0

  constructor(waitMs: number = WAIT_MS) {
    this.#waitMs = waitMs
  }

  /** Runs `work` when it is its turn. Raises 429 when too many of the caller wait already, when its turn does not come in time,
   *  and when `signal` is aborted before that. */
  async run<T>(who: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(who, signal)
    try {
      return await work()
    } finally {
      this.#end(who)
    }
  }

  #turn(who: string, signal: AbortSignal): Promise<void> {
    const backlog = this.#backlogs.get(who) ?? { running: 0, waiting: [] }
    this.#backlogs.set(who, backlog)
    if (this.#running < OF_ALL_MAX && backlog.running < OF_ONE_MAX && backlog.waiting.length === 0) {
      backlog.running++
      this.#running++
      return Promise.resolve()
    }
    if (backlog.waiting.length >= WAITING_OF_ONE_MAX) {
      throw busy(`you have ${backlog.running + backlog.waiting.length} searches in progress: wait for them`)
    }
    if (this.#waiting >= WAITING_OF_ALL_MAX) {
      this.#forget(who, backlog)
      throw busy('too many searches are in progress: try again')
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const giveUp = (why: string) => {
        const index = backlog.waiting.indexOf(start)
        if (index === -1) return
        clearTimeout(timer)
        signal.removeEventListener('abort', leave)
        backlog.waiting.splice(index, 1)
        this.#waiting--
        this.#forget(who, backlog)
        reject(busy(why))
      }
      const leave = () => giveUp('the client disconnected')
      const late = `this search waited ${this.#waitMs / 1_000} s for others to finish: narrow it, or try later`
      const timer = setTimeout(() => giveUp(late), this.#waitMs).unref()
      backlog.waiting.push(start)
      this.#waiting++
      signal.addEventListener('abort', leave, { once: true })
      if (signal.aborted) leave()
    })
  }

  #end(who: string): void {
    const backlog = this.#backlogs.get(who)!
    backlog.running--
    this.#running--
    this.#forget(who, backlog)
    for (const [name, next] of this.#backlogs) {
      if (this.#running >= OF_ALL_MAX) return
      if (next.waiting.length === 0 || next.running >= OF_ONE_MAX) continue
      next.running++
      this.#running++
      this.#waiting--
      // To the end of the map, so that the other callers come first.
      this.#backlogs.delete(name)
      this.#backlogs.set(name, next)
      next.waiting.shift()!()
      return
    }
  }

  #forget(who: string, backlog: Backlog): void {
    if (backlog.running === 0 && backlog.waiting.length === 0) this.#backlogs.delete(who)
  }
}

function busy(text: string): Refusal {
  return new Refusal(429, 'too_many_requests', text, { headers: { 'retry-after': '1' } })
}
