// Virtual time. Events lie in a heap and happen one after the other. Between two events every promise that can continue has
// continued. Nothing waits for real time, and there is no real input or output, so the order is the same each time.

import type { Timer } from '../../src/core/ports.js'
import type { Chance } from './chance.js'

/** The owner of an event. Events of a dead owner never happen. Events of a paused owner happen when it resumes. */
export interface Owner {
  readonly isDead: boolean
  /** Virtual time until which the owner is paused. */
  readonly stoppedUntilMs: number
}

interface Event extends Timer {
  atMs: number
  /** Decides between events of one moment. */
  tie: number
  run: (() => void) | null
  readonly owner: Owner | null
}

/** A run that reaches this count does not end. */
const EVENTS_MAX = 3_000_000
/** Events that a paused owner missed happen in their original order, before any other event of the moment it resumes. */
const MISSED_TIE = 1e-9

/** The timeline of a run. */
export class Timeline {
  readonly #chance: Chance
  readonly #heap: Event[] = []
  #nowMs = 0
  #missed = 0
  #count = 0

  constructor(chance: Chance) {
    this.#chance = chance
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** How many events have happened. */
  get count(): number {
    return this.#count
  }

  /** Calls `run` once when `ms` have passed. Events of one moment happen in an order that chance decides. */
  after(ms: number, run: () => void, owner: Owner | null = null): Timer {
    const event: Event = {
      atMs: this.#nowMs + ms,
      tie: this.#chance.float(),
      run,
      owner,
      cancel() {
        this.run = null
      },
    }
    push(this.#heap, event)
    return event
  }

  /** Lets time pass until `isOver` returns true after an event, or no events are left. Rejects with what an event throws. */
  run(isOver: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const step = (): void => {
        try {
          if (isOver() || !this.#happen()) {
            resolve()
            return
          }
        } catch (error) {
          reject(error as Error)
          return
        }
        // All microtasks run before the next tick, also those that microtasks add. So all promises that can continue have
        // continued. That costs a tenth of a turn of the event loop.
        queueMicrotask(next)
      }
      const next = () => process.nextTick(step)
      next()
    })
  }

  /** False when nothing is left. */
  #happen(): boolean {
    for (;;) {
      const event = pop(this.#heap)
      if (event === null) return false
      const { run, owner } = event
      if (run === null || owner?.isDead) continue
      this.#nowMs = Math.max(this.#nowMs, event.atMs)
      if (owner !== null && owner.stoppedUntilMs > this.#nowMs) {
        event.atMs = owner.stoppedUntilMs
        event.tie = MISSED_TIE * this.#missed++
        push(this.#heap, event)
        continue
      }
      if (++this.#count > EVENTS_MAX) throw new Error(`${EVENTS_MAX} events have happened and the run goes on`)
      event.run = null
      run()
      return true
    }
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.tie < other.tie)
}

function push(heap: Event[], event: Event): void {
  let at = heap.length
  heap.push(event)
  while (at > 0) {
    const above = (at - 1) >> 1
    if (!isBefore(event, heap[above]!)) break
    heap[at] = heap[above]!
    at = above
  }
  heap[at] = event
}

function pop(heap: Event[]): Event | null {
  const first = heap[0]
  const last = heap.pop()
  if (first === undefined || last === undefined) return null
  if (heap.length === 0) return first
  let at = 0
  for (;;) {
    let below = 2 * at + 1
    if (below >= heap.length) break
    if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++
    if (!isBefore(heap[below]!, last)) break
    heap[at] = heap[below]!
    at = below
  }
  heap[at] = last
  return first
}
