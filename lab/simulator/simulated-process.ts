// One simulated process over all its runs: the real client, worker and upkeep, started, crashed, stopped in order and started again.

import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import type { ProcessEvent } from '../history/events.js'
import { handlersOf } from './behaviours.js'
import type { Chance } from './chance.js'
import { type FaultPlan, Link } from './link.js'
import type { Plan, PlannedProcess } from './plan.js'
import { ProcessRun } from './process-run.js'
import type { Server } from './server.js'
import type { Timeline } from './timeline.js'

export interface StageDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly faultPlan: FaultPlan
  readonly plan: Plan
  readonly chance: Chance
  readonly write: (event: ProcessEvent) => void
}

/** A process while it is up. */
export interface Living {
  readonly processRun: ProcessRun
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
  #processRun: ProcessRun | null = null
  #living: Living | null = null
  /** Set while it is not to be started again. */
  #isOver = false
  /** Since when its worker takes jobs. */
  #workingSinceMs = Number.POSITIVE_INFINITY

  constructor(deps: StageDeps, planned: PlannedProcess) {
    this.#deps = deps
    this.#planned = planned
    this.name = planned.name
    this.#chance = deps.chance.fork(planned.name)
  }

  /** Its client, from the connection until it stops. */
  get living(): Living | null {
    return this.#living
  }

  /** True when the process is down. */
  get isDown(): boolean {
    return this.#processRun === null
  }

  /** What its worker serves, when it has taken jobs for this long without a break; null otherwise. */
  workingFor(ms: number): (PlannedProcess & { readonly id: string }) | null {
    const { nowMs } = this.#deps.timeline
    if (this.#living === null || !this.#planned.hasWorker) return null
    const { id, stoppedUntilMs } = this.#living.processRun
    const sinceMs = Math.max(this.#workingSinceMs, stoppedUntilMs)
    return nowMs - sinceMs < ms ? null : { ...this.#planned, id }
  }

  start(): void {
    if (this.#processRun !== null || this.#isOver) return
    const { timeline, server, faultPlan, plan, write } = this.#deps
    const { name, skewMs, rate } = this.#planned
    const number = ++this.#number
    const chance = this.#chance.fork(`life ${number}`)
    const processRun = new ProcessRun({ timeline, chance, name, number, skewMs, rate, write })
    const { deadlineMs } = plan
    const link = new Link({ timeline, server, faultPlan, chance: chance.fork('link'), processRun, deadlineMs })
    this.#processRun = processRun
    this.#connect(processRun, link).catch(() => {
      // The store is away. The process ends with an error, and its supervisor starts it again.
      if (!processRun.isDead) this.crash(START_AGAIN_MS)
    })
  }

  async #connect(processRun: ProcessRun, link: Link): Promise<void> {
    const { plan } = this.#deps
    const { hasWorker, concurrency, prefetch, pollMinMs: pollMin, queues, isHeard, name } = this.#planned
    const holdfast = await openHoldfast(link.store(), {
      ports: processRun.ports,
      name,
      upkeep: { hold: plan.holdMs },
      enqueueTimeout: plan.enqueueTimeoutMs,
    })
    this.#living = { processRun, holdfast }
    // It was ended while it was connecting.
    if (this.#isOver) return this.end()
    if (isHeard) holdfast.on(() => {})
    if (!hasWorker) return
    const crash = (job: string) => {
      this.#deps.server.truth.blame.killed(job)
      this.crash(this.#chance.between(200, 1_500))
    }
    const block = (ms: number) => {
      this.#recordDown(processRun)
      processRun.stop(ms)
      this.#deps.timeline.after(ms, () => this.#recordUp(processRun), processRun)
    }
    const handlers = handlersOf({ processRun, link, crash, block, concurrency })
    const { leaseMs: lease, drainMs: drain } = plan
    this.#workingSinceMs = Number.POSITIVE_INFINITY
    await holdfast.worker({ handlers, queues, concurrency, prefetch, pollMin, lease, drain }).start()
    this.#workingSinceMs = this.#deps.timeline.nowMs
    this.#recordUp(processRun)
  }

  /** Its worker takes jobs from here on, unless it is stopping. */
  #recordUp(processRun: ProcessRun): void {
    if (this.#living?.processRun !== processRun) return
    const { queues, concurrency: slots } = this.#planned
    const serves = { worker: processRun.id, of: this.name, queues, types: null, slots }
    processRun.record({ ev: 'worker.up', storeAt: this.#deps.server.nowMs, ...serves })
  }

  #recordDown(processRun: ProcessRun | null): void {
    processRun?.record({ ev: 'worker.down', storeAt: this.#deps.server.nowMs, worker: processRun.id })
  }

  /** Crashes it, and starts it again after a while. */
  crash(restartMs: number): void {
    this.#recordDown(this.#processRun)
    this.#processRun?.crash()
    this.#processRun = null
    this.#living = null
    this.#deps.timeline.after(restartMs, () => this.start())
  }

  /** Ends it in order, and starts it again after a while. */
  deploy(restartMs: number): void {
    const living = this.#living
    if (living === null) return
    this.#living = null
    this.#recordDown(living.processRun)
    void living.holdfast.close().then(() => {
      if (this.#exit(living.processRun)) this.#deps.timeline.after(restartMs, () => this.start())
    })
  }

  /** Pauses it for this long. */
  stop(ms: number): void {
    this.#processRun?.stop(ms)
  }

  /** Ends it in order for good. */
  end(): void {
    this.#isOver = true
    const living = this.#living
    // A deploy in progress ends by itself.
    if (living === null) return
    this.#living = null
    this.#recordDown(living.processRun)
    void living.holdfast.close().then(() => this.#exit(living.processRun))
  }

  /** The process exits once everything is closed; remaining work is never done. Returns false when it is already gone. */
  #exit(processRun: ProcessRun): boolean {
    if (this.#processRun !== processRun) return false
    processRun.crash()
    this.#processRun = null
    return true
  }
}
