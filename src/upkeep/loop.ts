// One step of upkeep, repeated: after each run it waits as long as the step says, or less when nudged.

import { Contact } from '../core/contact.js'
import type { Emit } from '../core/events.js'
import type { Ports, Timer } from '../core/ports.js'

export interface LoopDeps {
  readonly ports: Ports
  readonly emit: Emit
  /** What the step is called in events. */
  readonly name: string
  /** Does a bounded piece of work and returns how long to wait before the next, in milliseconds. */
  readonly step: () => Promise<number>
}

/** A loop that outlives every failure of the store. */
export class Loop {
  readonly #deps: LoopDeps
  readonly #contact: Contact
  #timer: Timer | null = null
  #dueMs = Number.POSITIVE_INFINITY
  #inFlight: Promise<void> | null = null
  #isRunning = false
  #isFailing = false
  #isResting = false
  /** When the next step would have been due without the rest. */
  #restedDueMs = 0

  constructor(deps: LoopDeps) {
    this.#deps = deps
    this.#contact = new Contact(deps, deps.name)
  }

  /** Begins after `afterMs`. */
  start(afterMs: number): void {
    this.#isRunning = true
    this.nudge(afterMs)
  }

  /** Ends the loop, and waits for a step in flight. */
  async stop(): Promise<void> {
    this.#isRunning = false
    this.#timer?.cancel()
    await this.#inFlight
  }

  /** Does no step but when nudged, until `wake`. */
  rest(): void {
    this.#isResting = true
    this.#timer?.cancel()
    this.#restedDueMs = this.#inFlight === null ? this.#dueMs : 0
    this.#dueMs = Number.POSITIVE_INFINITY
  }

  /** Goes on as usual after a rest: with a step in `afterMs`, or when one would have been due if that is later. */
  wake(afterMs: number): void {
    this.#isResting = false
    this.#isFailing = false
    this.nudge(Math.max(afterMs, this.#restedDueMs - this.#deps.ports.clock.monotonic()))
  }

  /** Makes sure that a step begins within `withinMs` from now. A failing store keeps the pause it was given. */
  nudge(withinMs: number): void {
    const dueMs = this.#deps.ports.clock.monotonic() + withinMs
    if (!this.#isRunning || this.#isFailing || dueMs >= this.#dueMs) return
    this.#dueMs = dueMs
    // A step in flight sets the timer when it is over.
    if (this.#inFlight === null) this.#arm()
  }

  #arm(): void {
    const { clock, timers } = this.#deps.ports
    this.#timer?.cancel()
    this.#timer = timers.after(Math.max(0, Math.ceil(this.#dueMs - clock.monotonic())), () => {
      this.#inFlight = this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isFailing = false
    // Nudges that come during the step gather here.
    this.#dueMs = Number.POSITIVE_INFINITY
    let waitMs: number
    try {
      waitMs = await this.#deps.step()
      this.#contact.found()
    } catch (error) {
      waitMs = this.#contact.lost(error)
      this.#isFailing = true
      this.#dueMs = Number.POSITIVE_INFINITY
    }
    this.#inFlight = null
    const nextMs = this.#deps.ports.clock.monotonic() + waitMs
    if (this.#isResting) this.#restedDueMs = nextMs
    else this.#dueMs = Math.min(this.#dueMs, nextMs)
    if (this.#isRunning && this.#dueMs !== Number.POSITIVE_INFINITY) this.#arm()
  }
}

/** A time spread over the last quarter before `ms`, so that processes that started together do not stay together. */
export function jittered(ms: number, ports: Ports): number {
  return Math.ceil(ms * (0.75 + ports.random.float() / 4))
}
