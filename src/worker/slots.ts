// The jobs a worker has in hand: those that wait for a slot, and those that have one. Starts the next one whenever a slot
// is free.
//
// A job that was lost together with its worker before is a suspect. Few suspects run at a time, and the store is told before
// each starts, so that a crash blames those that ran and not those that waited beside them. One that would be dead after one
// more crash is the only suspect until its settlement is confirmed: no other suspect's crash is ever its death.

import { type ClaimedJob, type Lease, leaseName, leaseOf } from '../core/job.js'
import { CRASHES_MAX } from '../core/limits.js'
import type { RunScope } from './context.js'
import type { Deadlines } from './deadlines.js'
import { HeldJob } from './held-job.js'
import type { LeaseTable } from './lease-table.js'
import type { WorkerSettings } from './options.js'
import { conclude, runJob } from './run.js'

// With long jobs a prefetched one would wait here while workers elsewhere are idle, so a worker claims only so far ahead
// as its slots are likely to free up within this time.
const AHEAD_MS = 100
const AHEAD_AT_FIRST = 16
const HALVE_FROM = 64
const WAIT_MS_MAX = 2_000
const SUSPECTS_WAITING_MAX = 256
const SUSPECT_DELAY_MS = 1_000
// A worker that is killed with a thousand jobs in hand makes a thousand suspects, and nearly all of them are innocent: this
// share of the slots runs them.
const SUSPECT_SHARE = 0.25
// Most poison kills soon. After this time a suspect that is still running makes room for the next.
const SUSPECT_PROVEN_MS = 5_000
// A handler must not start with a lease that is about to run out.
const LEASE_MARGIN = 0.2
const MEAN_WEIGHT = 0.05

/** How many leases a worker of these settings can hold in its slots and waiting for them. */
export function leasesInHandMax({ concurrency, prefetch }: WorkerSettings): number {
  return concurrency + prefetch + SUSPECTS_WAITING_MAX
}

export interface SlotsDeps {
  readonly scope: RunScope
  readonly settings: WorkerSettings
  readonly table: LeaseTable
  readonly deadlines: Deadlines
}

/** Whether one more crash would be the job's death. */
function isLastChance({ crashes }: HeldJob): boolean {
  return crashes >= CRASHES_MAX - 1
}

/** The jobs in hand. */
export class Slots {
  readonly #deps: SlotsDeps
  readonly #running: HeldJob[] = []
  #waiting: HeldJob[] = []
  #waitingHead = 0
  #waitingCount = 0
  #suspects: HeldJob[] = []
  #suspectCount = 0
  #suspectsRunning: HeldJob[] = []
  /** The suspect on its last chance: it runs, or the store has yet to confirm what became of it. */
  #lastChance: HeldJob | null = null
  #reserved = 0
  #isPumping = false
  #isClosed = false
  /** Null until a job has ended. */
  #meanRanMs: number | null = null
  #extendedFromMs = Number.NEGATIVE_INFINITY
  #onEmpty: (() => void)[] = []

  constructor(deps: SlotsDeps) {
    this.#deps = deps
  }

  get running(): readonly HeldJob[] {
    return this.#running
  }

  get isEmpty(): boolean {
    return this.#running.length === 0 && this.#waitingCount === 0 && this.#suspectCount === 0
  }

  /** Whether a job is in hand for the next slot that comes free. */
  get hasWaiting(): boolean {
    return this.#waitingCount > 0
  }

  /** How many jobs a claim may bring. Suspects that wait for each other keep no slot from the rest. */
  room(): number {
    if (this.#isClosed) return 0
    const { settings, table } = this.#deps
    const ahead = this.#ahead()
    const free = settings.concurrency - this.#running.length - this.#reserved
    // Half of what may be in hand at a time, so that the store can look for one half while the other runs here.
    const most = ahead < HALVE_FROM ? free + ahead : Math.max(free, Math.ceil((settings.concurrency + ahead) / 2))
    return Math.max(0, Math.min(free + ahead - this.#waitingCount, most, settings.claimBatch, table.room))
  }

  /** Whether a claim is worth its way: a slot is idle, or half of what may wait has been started. */
  isHungry(): boolean {
    const room = this.room()
    if (room === 0) return false
    const isIdle = this.#running.length + this.#waitingCount < this.#deps.settings.concurrency
    return isIdle || room * 2 >= this.#ahead()
  }

  #ahead(): number {
    const { concurrency, prefetch } = this.#deps.settings
    // Nobody knows yet how long jobs take here: as many as may well be started soon.
    if (this.#meanRanMs === null) return Math.min(prefetch, Math.max(concurrency, AHEAD_AT_FIRST))
    return Math.min(prefetch, Math.floor((concurrency * AHEAD_MS) / Math.max(this.#meanRanMs, 0.1)))
  }

  /** How many slots are idle with nothing in hand for them. */
  idle(): number {
    if (this.#isClosed) return 0
    const { settings, table } = this.#deps
    const free = settings.concurrency - this.#running.length - this.#waitingCount - this.#reserved
    return Math.max(0, Math.min(free, table.room - this.#reserved))
  }

  /** Keeps idle slots for jobs that are on their way, or gives them up again with a negative count. */
  reserve(count: number): void {
    this.#reserved += count
  }

  /** Takes claimed jobs in. `sentMs` is when their claim was sent, monotonic. `pump` starts them. */
  admit(jobs: readonly ClaimedJob[], sentMs: number): void {
    const { scope, settings, table } = this.#deps
    const heldMs = scope.clock.monotonic()
    for (const job of jobs) {
      // The claim names the types it wants; a store that sends another gets it back by the lease running out.
      const handler = settings.handlers.get(job.type)
      if (handler === undefined) continue
      const held = new HeldJob(job, handler, { sentMs, heldMs, leaseSlot: table.hold(job) })
      if (held.crashes === 0) this.#waitingCount++
      else this.#suspectCount++
      if (this.#isClosed) this.#release(held, 0)
      else if (held.crashes === 0) this.#waiting.push(held)
      else if (this.#suspects.length < SUSPECTS_WAITING_MAX) this.#suspects.push(held)
      else this.#release(held, this.#suspectDelayMs())
    }
  }

  /** Starts waiting jobs while slots are free. */
  pump(): void {
    // A job that ends at once comes back here; the loop that started it goes on, instead of one loop inside another.
    if (this.#isPumping) return
    this.#isPumping = true
    try {
      while (this.#running.length < this.#deps.settings.concurrency) {
        const held = this.#next()
        if (held === null) break
        if (this.#isFresh(held)) this.#start(held)
        else this.#release(held, 0)
      }
    } finally {
      this.#isPumping = false
    }
  }

  #next(): HeldJob | null {
    while (this.#suspects.length > 0) {
      const suspect = this.#suspects[0]!
      if (suspect.phase === 'waiting' && !this.#mayStartSuspect(suspect)) break
      this.#suspects.shift()
      if (suspect.phase === 'waiting') return suspect
    }
    while (this.#waitingHead < this.#waiting.length) {
      const held = this.#waiting[this.#waitingHead++]!
      // Cancelled, lost or released while it waited.
      if (held.phase === 'waiting') return held
    }
    this.#waiting = []
    this.#waitingHead = 0
    return null
  }

  #mayStartSuspect(next: HeldJob): boolean {
    const running = this.#suspectsRunning
    if (this.#lastChance !== null) return false
    if (isLastChance(next)) return running.length === 0
    const nowMs = this.#deps.scope.clock.monotonic()
    const unproven = running.filter(({ startedMs }) => nowMs - startedMs < SUSPECT_PROVEN_MS)
    return unproven.length < Math.max(1, Math.floor(this.#deps.settings.concurrency * SUSPECT_SHARE))
  }

  // By the monotonic clock since the claim, or the last extension it was part of, was sent: the store counts from later.
  #isFresh(held: HeldJob): boolean {
    const { leaseMs } = this.#deps.settings
    const fromMs = held.heldMs <= this.#extendedFromMs ? this.#extendedFromMs : held.claimSentMs
    return this.#deps.scope.clock.monotonic() - fromMs <= leaseMs * (1 - LEASE_MARGIN)
  }

  #start(held: HeldJob): void {
    const { scope, table, deadlines } = this.#deps
    held.phase = 'starting'
    held.place = this.#running.length
    this.#running.push(held)
    held.startedMs = scope.clock.monotonic()
    table.start(held.leaseSlot, held.startedMs, held.limits.timeoutMs)
    deadlines.start(held)
    if (held.crashes === 0) {
      this.#waitingCount--
      runJob(held, scope)
    } else {
      this.#suspectCount--
      this.#suspectsRunning.push(held)
      if (isLastChance(held)) this.#lastChance = held
      void this.#startSuspect(held)
    }
  }

  async #startSuspect(held: HeldJob): Promise<void> {
    const { scope } = this.#deps
    try {
      await scope.store.begin([leaseOf(held)])
    } catch (error) {
      scope.emit({ name: 'store.failed', during: 'begin', error: error as Error })
      conclude(held, scope, { kind: 'released', delayMs: this.#suspectDelayMs() })
      return
    }
    if (held.phase === 'starting') runJob(held, scope)
  }

  #release(held: HeldJob, delayMs: number): void {
    conclude(held, this.#deps.scope, { kind: 'released', delayMs })
  }

  // Spread, so that suspects that came together do not come back together.
  #suspectDelayMs(): number {
    return Math.ceil(SUSPECT_DELAY_MS * (1 + 2 * this.#deps.scope.random()))
  }

  /** Takes a job that has ended out of the list it is in. */
  remove(held: HeldJob): void {
    if (held.place !== -1) this.#leaveSlot(held)
    else if (held.crashes === 0) this.#waitingCount--
    else this.#suspectCount--
    if (this.#onEmpty.length > 0 && this.isEmpty) for (const tell of this.#onEmpty.splice(0)) tell()
  }

  /** The store has confirmed what became of the job, or never will. */
  confirmed(held: HeldJob): void {
    if (held !== this.#lastChance) return
    this.#lastChance = null
    this.pump()
  }

  #leaveSlot(held: HeldJob): void {
    const last = this.#running.pop()!
    if (last !== held) {
      this.#running[held.place] = last
      last.place = held.place
    }
    held.place = -1
    if (held.crashes > 0) this.#suspectsRunning = this.#suspectsRunning.filter((other) => other !== held)
    const ranMs = this.#deps.scope.clock.monotonic() - held.startedMs
    const meanMs = this.#meanRanMs ?? ranMs
    this.#meanRanMs = meanMs + (ranMs - meanMs) * MEAN_WEIGHT
    this.pump()
  }

  /** All leases held at `fromMs` were extended then. */
  extended(fromMs: number): void {
    this.#extendedFromMs = Math.max(this.#extendedFromMs, fromMs)
  }

  /** The jobs of these leases that wait or run; settlements under way are not looked for. */
  find(leases: readonly Lease[]): HeldJob[] {
    if (leases.length === 0) return []
    // By both: a job that was lost here and claimed here again is in hand twice.
    const names = new Set(leases.map(leaseName))
    return this.inHand().filter((held) => names.has(leaseName(held)))
  }

  /** All jobs in hand, waiting and running. */
  inHand(): HeldJob[] {
    return [...this.#running, ...this.#stillWaiting()]
  }

  #stillWaiting(): HeldJob[] {
    const waiting = [...this.#waiting.slice(this.#waitingHead), ...this.#suspects]
    return waiting.filter((held) => held.phase === 'waiting')
  }

  /** Gives jobs back that have waited too long for a slot here. */
  releaseOverdue(): void {
    if (this.#waitingCount + this.#suspectCount === 0) return
    const waitMs = Math.min(WAIT_MS_MAX, this.#deps.settings.leaseMs / 2)
    const nowMs = this.#deps.scope.clock.monotonic()
    for (const held of this.#stillWaiting()) {
      if (nowMs - held.heldMs < waitMs) continue
      // The slots are slower than they seemed, so claim less far ahead until jobs end quickly again.
      if (held.crashes === 0) this.#meanRanMs = Math.max(this.#meanRanMs ?? 0, waitMs)
      this.#release(held, held.crashes === 0 ? 0 : this.#suspectDelayMs())
    }
  }

  /** Takes no more jobs in and gives those back that wait. Returns how many. */
  close(): number {
    this.#isClosed = true
    const waiting = this.#stillWaiting()
    for (const held of waiting) this.#release(held, 0)
    return waiting.length
  }

  /** Resolves when nothing waits or runs. */
  whenEmpty(): Promise<void> {
    if (this.isEmpty) return Promise.resolve()
    return new Promise((resolve) => this.#onEmpty.push(resolve))
  }
}
