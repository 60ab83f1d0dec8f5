// One run of a simulated process, from its start to its crash or orderly end: its clocks, its timers, its random numbers and its
// records.

import type { Lease } from '../../src/core/job.js'
import type { Ports } from '../../src/core/ports.js'
import type { ProcessEvent } from '../history/events.js'
import type { Chance } from './chance.js'
import type { Owner, Timeline } from './timeline.js'

/** The start of every run by a correct clock: noon on a winter day. */
export const EPOCH_MS: number = Date.UTC(2026, 0, 15, 12)

/** How late a timer fires at most. */
const TIMER_LATE_MS = 0.4
/** How long a turn of the event loop takes at most. */
const TURN_MS = 0.2

export interface ProcessRunDeps {
  readonly timeline: Timeline
  readonly chance: Chance
  readonly name: string
  readonly number: number
  /** How far its wall clock is off. */
  readonly skewMs: number
  /** How fast its clocks go; 1 is right. */
  readonly rate: number
  readonly write: (event: ProcessEvent) => void
}

/** A record of a process, without the process's name. */
type OwnRecord = ProcessEvent extends infer Event
  ? Event extends ProcessEvent
    ? Omit<Event, 'process' | 'processRun' | 'mono' | 'wall'>
    : never
  : never

/** A simulated process from one start to its end. */
export class ProcessRun implements Owner {
  readonly name: string
  readonly number: number
  readonly ports: Ports
  readonly #deps: ProcessRunDeps
  readonly #bornMs: number
  readonly #firstMs: number
  readonly #running = new Map<string, { job: string; fence: number; attempt: number }>()
  #isDead = false
  #stoppedUntilMs = 0

  constructor(deps: ProcessRunDeps) {
    this.#deps = deps
    this.name = deps.name
    this.number = deps.number
    this.#bornMs = deps.timeline.nowMs
    this.#firstMs = deps.chance.between(1, 1e6)
    this.ports = this.#makePorts()
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get stoppedUntilMs(): number {
    return this.#stoppedUntilMs
  }

  /** Its name in `claimed` events. */
  get id(): string {
    return `${this.name}#${this.number}`
  }

  /** Ends it immediately: its timers never fire, no answer reaches it, it records nothing more. */
  crash(): void {
    this.#isDead = true
  }

  /** Pauses it for this long, as SIGSTOP or a blocking handler does. Its clocks go on. */
  stop(ms: number): void {
    this.#stoppedUntilMs = Math.max(this.#stoppedUntilMs, this.#deps.timeline.nowMs + ms)
  }

  /** Writes a record, unless the process has ended. */
  record(record: OwnRecord): void {
    if (this.#isDead) return
    const { name: process, number: processRun } = this
    // The correct time, which no part of the process knows. It places the record in a story.
    const wall = EPOCH_MS + this.#deps.timeline.nowMs
    this.#deps.write({ ...record, process, processRun, mono: this.ports.clock.monotonic(), wall } as ProcessEvent)
  }

  /** A handler has begun under this lease, or has ended. */
  runs(lease: Lease & { readonly attempt: number }, isRunning: boolean): void {
    const { id: job, fence, attempt } = lease
    if (isRunning) this.#running.set(`${job} ${fence}`, { job, fence, attempt })
    else this.#running.delete(`${job} ${fence}`)
  }

  /** The store has answered that these leases are lost. From now on the process knows it. */
  lost(leases: readonly Lease[]): void {
    for (const { id, fence } of leases) {
      const about = this.#running.get(`${id} ${fence}`)
      if (about === undefined) continue
      this.#running.delete(`${id} ${fence}`)
      this.record({ ev: 'lost_lease', ...about })
    }
  }

  #makePorts(): Ports {
    const { timeline, rate, skewMs } = this.#deps
    const chance = this.#deps.chance.fork('turns')
    const monotonic = () => this.#firstMs + (timeline.nowMs - this.#bornMs) * rate
    return {
      clock: { now: () => EPOCH_MS + timeline.nowMs * rate + skewMs, monotonic },
      timers: {
        after: (ms, run) => timeline.after(Math.max(0, ms) / rate + chance.between(0, TIMER_LATE_MS), run, this),
        soon: (run) => void timeline.after(chance.between(0, TURN_MS), run, this),
      },
      random: this.#deps.chance.fork('random'),
    }
  }
}
