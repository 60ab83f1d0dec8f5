// The jobs a worker has in hand. Starts the next one whenever a slot is free: suspects first (suspects.ts), then those that wait.
// ◄── fetcher.ts · next: prefetch.ts

import { type ClaimedJob, type Lease, leaseName } from '../core/job.js'
import type { Deadlines } from './deadlines.js'
import { HeldJob } from './held-job.js'
import type { LeaseTable } from './lease-table.js'
import type { WorkerSettings } from './options.js'
import { Prefetch } from './prefetch.js'
import { conclude, type RunScope, runJob } from './run.js'
import { SUSPECTS_WAITING_MAX, Suspects } from './suspects.js'
import type { Unsettled } from './unsettled.js'

const HALVE_FROM = 64
const WAIT_MS_MAX = 2_000
// A handler must not start with a lease that is about to run out.
const LEASE_MARGIN = 0.2

/** How many leases a worker of these settings can hold in its slots and waiting for them. */
export function leasesInHandMax({ concurrency, prefetch }: WorkerSettings): number {
  return concurrency + prefetch + SUSPECTS_WAITING_MAX
}

export interface SlotsDeps {
  readonly scope: RunScope
  readonly settings: WorkerSettings
  readonly table: LeaseTable
  readonly deadlines: Deadlines
  readonly unsettled: Unsettled
}

/** The slots of one worker, and the jobs that wait for them. */
export class Slots {
  readonly #deps: SlotsDeps
  readonly #prefetch: Prefetch
  readonly #suspects: Suspects
  readonly #running: HeldJob[] = []
  #reserved = 0
  #admitted = 0
  #isPumping = false
  #isClosed = false
  #extendedFromMs = Number.NEGATIVE_INFINITY
  #onEmpty: (() => void)[] = []

  constructor(deps: SlotsDeps) {
    this.#deps = deps
    this.#prefetch = new Prefetch(deps.settings)
    this.#suspects = new Suspects(deps.scope, deps.settings.concurrency)
  }

  get running(): readonly HeldJob[] {
    return this.#running
  }

  get isEmpty(): boolean {
    return this.#running.length + this.#prefetch.count + this.#suspects.count === 0
  }

  /** How many jobs a claim may bring. Suspects that wait do not count: they must not keep slots from other jobs. */
  room(): number {
    if (this.#isClosed || this.#deps.unsettled.isFull) return 0
    const { settings, table } = this.#deps
    const ahead = this.#prefetch.most()
    const free = settings.concurrency - this.#running.length - this.#reserved
    // Half of what may be in hand at a time, so that the store can look for one half while the other runs here.
    const most = ahead < HALVE_FROM ? free + ahead : Math.max(free, Math.ceil((settings.concurrency + ahead) / 2))
    return Math.max(0, Math.min(free + ahead - this.#prefetch.count, most, settings.claimBatch, table.room))
  }

  /** Whether a claim is worth its round trip: a slot is idle, or half of what may wait has been started. */
  hasRoom(): boolean {
    const room = this.room()
    const isIdle = this.#running.length + this.#prefetch.count < this.#deps.settings.concurrency
    return room > 0 && (isIdle || room * 2 >= this.#prefetch.most())
  }

  /** How many slots are idle with no job in hand for them. */
  idle(): number {
    if (this.#isClosed || this.#deps.unsettled.isFull) return 0
    const free = this.#deps.settings.concurrency - this.#running.length - this.#prefetch.count - this.#reserved
    return Math.max(0, Math.min(free, this.#deps.table.room - this.#reserved))
  }

  /** How many jobs may be claimed beyond the idle slots if they are to start within this time, and how many such jobs may wait. */
  ahead(withinMs: number): { readonly room: number; readonly most: number } {
    const most = this.#prefetch.most(withinMs)
    const free = this.#deps.settings.concurrency - this.#running.length - this.#reserved
    return { room: Math.min(this.room(), free + most - this.#prefetch.count) - this.idle(), most }
  }

  /** Keeps idle slots for jobs that are on their way, or frees them again with a negative count. */
  reserve(count: number): void {
    this.#reserved += count
  }

  /** Adds claimed jobs. `sentMs` is when their claim was sent, monotonic. `pump` starts them. */
  admit(jobs: readonly ClaimedJob[], sentMs: number): void {
    const { scope, settings, table } = this.#deps
    const heldMs = scope.clock.monotonic()
    for (const job of jobs) {
      // The claim names the types it wants. A job of another type is left alone until its lease runs out.
      const handler = settings.handlers.get(job.type)
      if (handler === undefined) continue
      const held = new HeldJob(job, handler, { sentMs, heldMs, leaseSlot: table.hold(job), order: this.#admitted++ })
      this.#listOf(held).add(held)
      if (this.#isClosed) this.#release(held)
    }
  }

  #listOf({ crashes }: HeldJob): Prefetch | Suspects {
    return crashes === 0 ? this.#prefetch : this.#suspects
  }

  /** Starts waiting jobs while slots are free and the store keeps up with the settlements. */
  pump(): void {
    // A job that ends immediately calls this again. The loop that started it goes on; there is no loop inside a loop.
    if (this.#isPumping) return
    this.#isPumping = true
    try {
      while (this.#running.length < this.#deps.settings.concurrency && !this.#deps.unsettled.isFull) {
        const held = this.#suspects.next() ?? this.#prefetch.next()
        if (held === null) break
        if (this.#isFresh(held)) this.#start(held)
        else this.#release(held)
      }
    } finally {
      this.#isPumping = false
    }
  }

  // Counts from when the claim was sent, or the last extension with it. The store counts from later, so this is on the safe side.
  #isFresh(held: HeldJob): boolean {
    const { leaseMs } = this.#deps.settings
    const fromMs = held.heldMs <= this.#extendedFromMs ? this.#extendedFromMs : held.claimSentMs
    return this.#deps.scope.clock.monotonic() - fromMs <= leaseMs * (1 - LEASE_MARGIN)
  }

  #start(held: HeldJob): void {
    held.phase = 'starting'
    held.place = this.#running.length
    this.#running.push(held)
    this.startClock(held)
    this.#listOf(held).left()
    if (held.crashes === 0) runJob(held, this.#deps.scope)
    else this.#suspects.start(held)
  }

  /** Counts the time of a job's handler from now. */
  startClock(held: HeldJob): void {
    const { scope, table, deadlines } = this.#deps
    held.startedMs = scope.clock.monotonic()
    table.start(held.leaseSlot, held.startedMs, held.limits.timeoutMs)
    deadlines.start(held)
  }

  #release(held: HeldJob): void {
    conclude(held, this.#deps.scope, { kind: 'released', delayMs: 0 })
  }

  /** Takes a job that has ended out of the list it is in. */
  remove(held: HeldJob): void {
    if (held.place === -1) this.#listOf(held).left()
    else this.#leaveSlot(held)
    if (this.#onEmpty.length > 0 && this.isEmpty) for (const resolve of this.#onEmpty.splice(0)) resolve()
  }

  #leaveSlot(held: HeldJob): void {
    const last = this.#running.pop()!
    if (last !== held) {
      this.#running[held.place] = last
      last.place = held.place
    }
    held.place = -1
    if (held.crashes > 0) this.#suspects.leftSlot(held)
    this.#prefetch.learn(this.#deps.scope.clock.monotonic() - held.startedMs)
    this.pump()
  }

  /** The store has confirmed how a job ended, or never will. */
  confirmed(held: HeldJob): void {
    if (this.#suspects.confirm(held)) this.pump()
  }

  /** All leases held at `fromMs` were extended then. */
  extended(fromMs: number): void {
    this.#extendedFromMs = Math.max(this.#extendedFromMs, fromMs)
  }

  /** The jobs of these leases that wait or run; those that have ended are not looked for. */
  find(leases: readonly Lease[]): HeldJob[] {
    if (leases.length === 0) return []
    // By both: a job that was lost here and claimed here again is in hand twice.
    const names = new Set(leases.map(leaseName))
    return this.inHand().filter((held) => names.has(leaseName(held)))
  }

  /** All jobs in hand: first those that run, then those that wait. */
  inHand(): HeldJob[] {
    return [...this.#running, ...this.#prefetch.all(), ...this.#suspects.all()]
  }

  /** Releases jobs that have waited too long for a slot here. */
  releaseOverdue(): void {
    const waitMs = Math.min(WAIT_MS_MAX, this.#deps.settings.leaseMs / 2)
    const fromMs = this.#deps.scope.clock.monotonic() - waitMs
    for (const held of this.#prefetch.all()) {
      if (held.heldMs > fromMs) continue
      this.#prefetch.learnOverdue(waitMs)
      this.#release(held)
    }
    for (const held of this.#suspects.all()) if (held.heldMs <= fromMs) this.#suspects.release(held)
  }

  /** Admits no more jobs, and releases those that wait. */
  close(): void {
    this.#isClosed = true
    for (const held of this.inHand().slice(this.#running.length)) this.#release(held)
  }

  /** Resolves when no job waits or runs. */
  whenEmpty(): Promise<void> {
    if (this.isEmpty) return Promise.resolve()
    return new Promise((resolve) => this.#onEmpty.push(resolve))
  }
}
