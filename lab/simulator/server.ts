// The simulated server: the real memory store with its own clock, its downtime and its notifications. A call is applied
// atomically. The way there and back is simulated by link.ts.

import { HoldfastError } from '../../src/core/errors.js'
import { type Lease, leaseOf, type SettledJob } from '../../src/core/job.js'
import type { SettleResult } from '../../src/core/job-store.js'
import type { Store } from '../../src/core/store.js'
import type { Expired } from '../../src/core/upkeep-store.js'
import { type Memory, newMemory } from '../../src/stores/memory/memory.js'
import { storeOver } from '../../src/stores/memory/store.js'
import type { HistoryEvent } from '../history/events.js'
import { EPOCH_MS } from './process-run.js'
import type { Timeline } from './timeline.js'
import { Truth } from './truth.js'

/** A notification to all listeners, and whose call caused it; null when an open transaction or a wake did. */
export type Wake = ({ readonly ready: string; readonly isEnqueue: boolean } | { readonly cancel: string }) & {
  readonly caller: string | null
}

/** A handler's effect on its way to the store. */
export interface Effect extends Lease {
  readonly attempt: number
}

/** Calls that can change a job. After each of them the memory is compared. */
const CHANGING: ReadonlySet<string> = new Set([
  ...['enqueue', 'claim', 'extend', 'settle', 'promote', 'fire'],
  ...['cancel', 'requeue', 'discard', 'update', 'pause', 'resume', 'stepBulk'],
  ...['setQueue', 'setLimit', 'forceBreaker', 'observe', 'setGroup', 'pauseGroup', 'resumeGroup'],
])

/** How long a transaction stays open after its process is gone. */
const OPEN_MS_MAX = 8_000

/** The one server of a run. */
export class Server {
  readonly memory: Memory = newMemory()
  readonly truth: Truth
  readonly #timeline: Timeline
  readonly #store: Store
  readonly #listeners = new Set<(wake: Wake) => void>()
  readonly #effects = new Set<string>()
  readonly #transactions = new Map<string, { settled: SettledJob; effect: Effect }>()
  /** Jobs whose row an open transaction has locked. Other calls skip them. */
  readonly #locked = new Set<string>()
  #jumpedMs = 0
  #isDown = false
  #caller: string | null = null
  #upSinceMs = Number.NEGATIVE_INFINITY

  constructor(timeline: Timeline, write: (event: HistoryEvent) => void) {
    this.#timeline = timeline
    this.truth = new Truth(this.memory, write)
    this.#store = storeOver(this.memory, { now: () => this.nowMs })
    this.#store.listen({
      ready: (ready, isEnqueue) => this.#notify({ ready, isEnqueue, caller: this.#caller }),
      cancel: (cancel) => this.#notify({ cancel, caller: this.#caller }),
    })
  }

  /** The store's time, in whole milliseconds as the store keeps it. */
  get nowMs(): number {
    return Math.floor(EPOCH_MS + this.#timeline.nowMs + this.#jumpedMs)
  }

  get isDown(): boolean {
    return this.#isDown
  }

  /** Sets the store's clock forward, or back. */
  jump(ms: number): void {
    this.#jumpedMs += ms
  }

  goDown(): void {
    this.#isDown = true
  }

  comeUp(): void {
    this.#isDown = false
    this.#upSinceMs = this.#timeline.nowMs
  }

  /** Receives the store's notifications. Returns the function that ends it. */
  listen(receive: (wake: Wake) => void): () => void {
    this.#listeners.add(receive)
    return () => void this.#listeners.delete(receive)
  }

  #notify(wake: Wake): void {
    for (const receive of this.#listeners) receive(wake)
  }

  /** Applies a call of the store's contract. Its effect is visible when this returns; its answer comes later. */
  apply(name: string, args: readonly unknown[], caller: string): Promise<unknown> {
    const call = this.#store[name as keyof Store] as (...args: readonly unknown[]) => Promise<unknown>
    const atMs = this.nowMs
    const passing = this.#passingOver(name, args)
    this.#caller = caller
    // What it announces it has announced when this returns.
    const answer = call(...passing)
    this.#caller = null
    if (CHANGING.has(name)) this.truth.look({ name, args: passing, caller, atMs })
    return name === 'expired' ? answer.then((expired) => this.#withUpTime(expired as Expired)) : answer
  }

  /** The same call without the rows that an open transaction has locked, if this call skips locked rows. */
  #passingOver(name: string, args: readonly unknown[]): readonly unknown[] {
    const isRescue = name === 'settle' && (args[1] as { onlyExpired?: boolean } | undefined)?.onlyExpired === true
    if (this.#locked.size === 0 || !(isRescue || name === 'extend')) return args
    const [leases, ...rest] = args as [readonly Lease[], ...unknown[]]
    return [leases.filter(({ id }) => !this.#locked.has(id)), ...rest]
  }

  wake(queues: readonly string[]): void {
    this.#store.wake(queues)
  }

  // After an outage, living workers must be able to extend first. The memory store alone never has outages.
  #withUpTime(expired: Expired): Expired {
    const upMs = this.#timeline.nowMs - this.#upSinceMs
    const jobs = expired.jobs.filter(({ id }) => !this.#locked.has(id))
    return Number.isFinite(upMs) ? { ...expired, jobs, upMs } : { ...expired, jobs }
  }

  /** Applies an effect outside of any transaction, once for each lease: repeating the call after a lost answer does nothing. */
  applyEffect({ id: job, fence, attempt }: Effect): void {
    const name = `${job} ${fence}`
    if (this.#effects.has(name)) return
    this.#effects.add(name)
    this.truth.effect({ job, fence, attempt, inTransaction: false }, this.nowMs)
  }

  /** Settles a job inside an open transaction: returns whether the lease holds, and changes nothing before the commit. */
  settleInside(tx: string, [settled]: readonly SettledJob[], attempt: number): SettleResult[] {
    const lease = leaseOf(settled!)
    const { id, fence } = lease
    const job = this.memory.jobs.get(id)
    if (job === undefined || job.lease === null || job.fence !== fence) {
      return [{ ...lease, result: 'lost', state: null }]
    }
    this.#transactions.set(tx, { settled: settled!, effect: { ...lease, attempt } })
    this.#locked.add(id)
    // The connection of a process that is gone or cut off ends some time later.
    this.#timeline.after(OPEN_MS_MAX, () => this.rollback(tx))
    return [{ ...lease, result: 'settled', state: 'succeeded' }]
  }

  /** Rolls a transaction back. */
  rollback(tx: string): void {
    const open = this.#transactions.get(tx)
    if (open === undefined) return
    this.#transactions.delete(tx)
    this.#locked.delete(open.settled.id)
  }

  /** Commits the effect together with the settlement, or neither when the lease was taken meanwhile. */
  async commit(tx: string, caller: string): Promise<void> {
    const open = this.#transactions.get(tx)
    this.rollback(tx)
    if (open === undefined) throw new HoldfastError('store_refused', `there is no transaction ${tx}`)
    const { id, fence } = open.settled
    const job = this.memory.jobs.get(id)
    if (job === undefined || job.lease === null || job.fence !== fence) {
      throw new HoldfastError('store_refused', `transaction ${tx} is rolled back: another one has its row`)
    }
    const { attempt } = open.effect
    this.truth.effect({ job: id, fence, attempt, inTransaction: true }, this.nowMs)
    await this.apply('settle', [[open.settled]], caller)
  }
}
