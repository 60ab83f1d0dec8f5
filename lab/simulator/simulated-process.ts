// One simulated process over all its lives: the real client, worker and upkeep, started, crashed, stopped in order and started
// again.

import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import type { ProcessEvent } from '../history/events.js'
import { handlersOf } from './behaviours.js'
import type { Chance } from './chance.js'
import { Incarnation } from './incarnation.js'
import { Link, type Weather } from './link.js'
import type { Plan, PlannedProcess } from './plan.js'
import type { Server } from './server.js'
import type { Timeline } from './timeline.js'

export interface StageDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly weather: Weather
  readonly plan: Plan
  readonly chance: Chance
  readonly write: (event: ProcessEvent) => void
}

/** What is there of a process while it lives. */
export interface Living {
  readonly incarnation: Incarnation
  readonly holdfast: Holdfast
}

/** How long a process that could not reach the store takes to be started again. */
const START_AGAIN_MS = 500

export class SimulatedProcess {
  readonly name: string
  readonly #deps: StageDeps
  readonly #planned: PlannedProcess
  readonly #chance: Chance
  #number = 0
  #incarnation: Incarnation | null = null
  #living: Living | null = null
  /** Set while it is not to be started again. */
  #isOver = false

  constructor(deps: StageDeps, planned: PlannedProcess) {
    this.#deps = deps
    this.#planned = planned
    this.name = planned.name
    this.#chance = deps.chance.fork(planned.name)
  }

  /** Its client, once it is connected and until it is asked to stop. */
  get living(): Living | null {
    return this.#living
  }

  /** True when nothing of it runs. */
  get isDown(): boolean {
    return this.#incarnation === null
  }

  start(): void {
    if (this.#incarnation !== null || this.#isOver) return
    const { timeline, server, weather, plan, write } = this.#deps
    const { name, skewMs, rate } = this.#planned
    const number = ++this.#number
    const chance = this.#chance.fork(`life ${number}`)
    const incarnation = new Incarnation({ timeline, chance, name, number, skewMs, rate, write })
    const { deadlineMs } = plan
    const link = new Link({ timeline, server, weather, chance: chance.fork('link'), incarnation, deadlineMs })
    this.#incarnation = incarnation
    this.#connect(incarnation, link).catch(() => {
      // The store is away: the process ends with an error, and whoever watches over it starts it again.
      if (!incarnation.isDead) this.crash(START_AGAIN_MS)
    })
  }

  async #connect(incarnation: Incarnation, link: Link): Promise<void> {
    const { plan } = this.#deps
    const { hasWorker, concurrency, prefetch, pollMinMs: pollMin, queues, isHeard, name } = this.#planned
    const holdfast = await openHoldfast(link.store(), {
      ports: incarnation.ports,
      name,
      upkeep: { hold: plan.holdMs },
      enqueueTimeout: plan.enqueueTimeoutMs,
    })
    this.#living = { incarnation, holdfast }
    // It was told to end while it was connecting.
    if (this.#isOver) return this.end()
    if (isHeard) holdfast.on(() => {})
    if (!hasWorker) return
    const crash = (job: string) => {
      this.#deps.server.truth.blame.killed(job)
      this.crash(this.#chance.between(200, 1_500))
    }
    const block = (ms: number) => {
      this.#tellDown(incarnation)
      incarnation.stop(ms)
      this.#deps.timeline.after(ms, () => this.#tellUp(incarnation), incarnation)
    }
    const handlers = handlersOf({ incarnation, link, crash, block })
    const { leaseMs: lease, drainMs: drain } = plan
    await holdfast.worker({ handlers, queues, concurrency, prefetch, pollMin, lease, drain }).start()
    this.#tellUp(incarnation)
  }

  /** Its worker takes jobs from here on, unless it is to end. */
  #tellUp(incarnation: Incarnation): void {
    if (this.#living?.incarnation !== incarnation) return
    const { queues, concurrency: slots } = this.#planned
    const serves = { worker: incarnation.id, of: this.name, queues, types: null, slots }
    incarnation.tell({ ev: 'worker.up', storeAt: this.#deps.server.nowMs, ...serves })
  }

  #tellDown(incarnation: Incarnation | null): void {
    incarnation?.tell({ ev: 'worker.down', storeAt: this.#deps.server.nowMs, worker: incarnation.id })
  }

  /** Ends it at once, and starts it again after a while. */
  crash(restartMs: number): void {
    this.#tellDown(this.#incarnation)
    this.#incarnation?.crash()
    this.#incarnation = null
    this.#living = null
    this.#deps.timeline.after(restartMs, () => this.start())
  }

  /** Ends it in order, and starts it again after a while. */
  deploy(restartMs: number): void {
    const living = this.#living
    if (living === null) return
    this.#living = null
    this.#tellDown(living.incarnation)
    void living.holdfast.close().then(() => {
      if (this.#exit(living.incarnation)) this.#deps.timeline.after(restartMs, () => this.start())
    })
  }

  /** Stands still for so long. */
  stop(ms: number): void {
    this.#incarnation?.stop(ms)
  }

  /** Ends it in order for good. */
  end(): void {
    this.#isOver = true
    const living = this.#living
    // A deploy that is under way comes to its own end.
    if (living === null) return
    this.#living = null
    this.#tellDown(living.incarnation)
    void living.holdfast.close().then(() => this.#exit(living.incarnation))
  }

  /** The process exits once everything is closed: what was left to do then is never done. False when it is gone already. */
  #exit(incarnation: Incarnation): boolean {
    if (this.#incarnation !== incarnation) return false
    incarnation.crash()
    this.#incarnation = null
    return true
  }
}
