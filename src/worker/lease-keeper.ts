// Extends every lease in the table, again and again, and reports what the store answered. It runs in the heartbeat thread
// where the store allows that, and on the main thread otherwise.

import { Contact } from '../core/contact.js'
import type { HoldfastEvent } from '../core/events.js'
import type { Lease } from '../core/job.js'
import { BATCH_MAX, type Extension } from '../core/job-store.js'
import type { Ports, Timer } from '../core/ports.js'
import type { HeldLease, LeaseTable } from './lease-table.js'

/** How often the main thread says that it is alive, in milliseconds: twice between two extensions, or more often. */
export function tickMs(heartbeatMs: number): number {
  return Math.min(500, Math.ceil(heartbeatMs / 2))
}

/** Without a sign for this long the main thread counts as blocked. */
export const BLOCKED_AFTER_MS = 2_000
/** A blocked main thread keeps a lease without a timeout for this long. */
const BLOCKED_MS_MAX = 60_000
/** Without a lease for this long, the connection for extending them is ended. */
const EMPTY_MS = 10_000

/** What a keeper tells the worker. */
export type KeeperReport =
  | {
      readonly kind: 'extended'
      /** Everything held at this time, by the main thread's monotonic clock, now lasts a whole lease from it. */
      readonly fromMs: number
      readonly count: number
      readonly lost: readonly Lease[]
      readonly cancelled: readonly Lease[]
    }
  | { readonly kind: 'event'; readonly event: HoldfastEvent }

export interface KeeperDeps {
  readonly ports: Ports
  readonly table: LeaseTable
  readonly extend: (leases: readonly Lease[], leaseMs: number) => Promise<Extension>
  readonly report: (report: KeeperReport) => void
  /** There has been no lease for a while: its connection is not needed for now. */
  readonly rest?: () => void
  readonly leaseMs: number
  readonly heartbeatMs: number
  /** True in the heartbeat thread: the main thread may be blocked while this one goes on. */
  readonly isApart: boolean
}

/** One loop that extends leases. */
export class LeaseKeeper {
  readonly #deps: KeeperDeps
  readonly #contact: Contact
  #timer: Timer | null = null
  #isStopped = false
  #inFlight: Promise<void> | null = null
  #dueMs = 0
  #emptySinceMs: number | null = null
  #seenCount = -1
  #seenAtMs = 0

  constructor(deps: KeeperDeps) {
    this.#deps = deps
    const emit = (event: HoldfastEvent) => deps.report({ kind: 'event', event })
    this.#contact = new Contact({ ports: deps.ports, emit }, 'extend')
  }

  start(): void {
    this.#dueMs = this.#deps.ports.clock.monotonic() + this.#deps.heartbeatMs
    this.#look()
  }

  /** Stops, and waits for an extension in flight. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    await this.#inFlight
  }

  // A keeper apart looks at the ticks more often than it extends, so that it knows when they stopped.
  #look(): void {
    if (this.#isStopped) return
    const { ports, isApart } = this.#deps
    const nowMs = ports.clock.monotonic()
    if (isApart) this.#observeTick(nowMs)
    if (nowMs >= this.#dueMs) {
      this.#inFlight = this.#extendAll().then((waitMs) => {
        this.#inFlight = null
        this.#dueMs = ports.clock.monotonic() + waitMs
        this.#look()
      })
      return
    }
    const waitMs = isApart ? Math.min(this.#dueMs - nowMs, tickMs(this.#deps.heartbeatMs)) : this.#dueMs - nowMs
    this.#timer = ports.timers.after(Math.max(1, waitMs), () => this.#look())
  }

  #observeTick(nowMs: number): void {
    const { count } = this.#deps.table.lastTick()
    if (count === this.#seenCount) return
    this.#seenCount = count
    this.#seenAtMs = nowMs
  }

  /** Extends what may be extended and returns how long to wait. Never raises. */
  async #extendAll(): Promise<number> {
    const { ports, table, leaseMs, heartbeatMs } = this.#deps
    const beganMs = ports.clock.monotonic()
    const fromMs = this.#deps.isApart ? table.lastTick().atMs : beganMs
    const leases = this.#keepable(beganMs)
    try {
      const lost: Lease[] = []
      const cancelled: Lease[] = []
      for (let from = 0; from < leases.length; from += BATCH_MAX) {
        const extension = await this.#deps.extend(leases.slice(from, from + BATCH_MAX), leaseMs)
        lost.push(...extension.lost)
        cancelled.push(...extension.cancelled)
      }
      this.#contact.found()
      if (leases.length > 0) {
        this.#deps.report({ kind: 'extended', fromMs, count: leases.length - lost.length, lost, cancelled })
      }
      this.#restWhileEmpty(leases.length, beganMs)
      // A slow answer must not push the next extension further away from the last.
      return Math.max(1, heartbeatMs - (ports.clock.monotonic() - beganMs))
    } catch (error) {
      return Math.min(this.#contact.lost(error), Math.ceil(heartbeatMs / 2))
    }
  }

  #restWhileEmpty(count: number, nowMs: number): void {
    if (count > 0) this.#emptySinceMs = null
    else if (this.#emptySinceMs === null) this.#emptySinceMs = nowMs
    else if (nowMs - this.#emptySinceMs >= EMPTY_MS) this.#deps.rest?.()
  }

  #keepable(nowMs: number): readonly Lease[] {
    const leases = this.#deps.table.read()
    if (!this.#deps.isApart) return leases
    const silentMs = nowMs - this.#seenAtMs
    if (silentMs < BLOCKED_AFTER_MS) return leases
    const { atMs } = this.#deps.table.lastTick()
    return leases.filter((lease) => mayKeepWhileBlocked(lease, atMs, silentMs))
  }
}

/** Whether a lease is extended although the main thread gave its last sign at `tickMs` and has been silent since. */
export function mayKeepWhileBlocked(lease: HeldLease, tickMs: number, silentMs: number): boolean {
  // A job with a timeout is kept exactly as long as one that does not block: until its time is up.
  if (lease.startedMs !== null && lease.timeoutMs !== null) {
    return tickMs - lease.startedMs + silentMs <= lease.timeoutMs
  }
  return silentMs <= BLOCKED_MS_MAX
}
