// What a worker knows of its queues that have flow control. A job that waits here holds a slot of its group and limits, so the worker claims
// from them for idle slots. Beyond these it claims only what starts within milliseconds, only from a queue that has more jobs that may start,
// and of each group at most one turn. Jobs that name limits are not claimed ahead: limits are shared with other queues, and a breaker must not
// find jobs in hand when it opens. ◄── fetcher.ts

import type { Emit } from '../core/events.js'
import type { FlowState } from '../core/flow/views.js'
import type { ClaimedJob } from '../core/job.js'
import type { Claim } from '../core/job-store.js'
import type { Ports } from '../core/ports.js'
import type { WorkerSettings } from './options.js'
import type { Share } from './shares.js'
import type { Slots } from './slots.js'

const IDLE_PART = 4
// About as long as the claim takes that brings the next ones.
const AHEAD_MS = 10
/** Without an idle slot a queue is claimed from while its claims bring at least one in this many of the jobs that they ask for. */
const AMPLE_PART = 2

/** What it needs of the worker. */
export interface FlowQueuesDeps {
  readonly slots: Pick<Slots, 'idle' | 'ahead'>
  readonly settings: Pick<WorkerSettings, 'concurrency'>
  readonly emit: Emit
  readonly ports: Pick<Ports, 'clock'>
}

/** How often a queue whose jobs wait is reported. */
const HELD_EVERY_MS = 10_000

/** The queues of one worker whose claims said that they have flow control. */
export class FlowQueues {
  readonly #deps: FlowQueuesDeps
  readonly #states = new Map<string, FlowState>()
  readonly #toldMs = new Map<string, number>()
  #wantsSlot = false
  /** A queue was woken since the last settlements. Those of this worker wake it when they free slots that jobs wait for. */
  #isWoken = false
  /** The queues of which jobs may be claimed ahead; and those that have had jobs with groups or limits, of which none may. */
  readonly #plentiful = new Set<string>()
  readonly #careful = new Set<string>()
  /** Those of the plentiful that gave most of what was claimed ahead. */
  readonly #ample = new Set<string>()

  constructor(deps: FlowQueuesDeps) {
    this.#deps = deps
  }

  /** What each said last. */
  get states(): ReadonlyMap<string, FlowState> {
    return this.#states
  }

  /** How long until one of them may have a job, if none says that it has one now. */
  get waitMs(): number | null {
    const times = [...this.#states.values()].flatMap(({ waitMs }) => (waitMs === null ? [] : [waitMs]))
    return times.length === 0 ? null : Math.min(...times)
  }

  /** Why to claim: a slot is idle and one of them may have a job for it. While a good part of the slots is idle there is nothing to wait
   *  for (`backlog`). A slot or two wait for others (`wake`, which is paced), so that not every job takes a claim. */
  wantsClaim(): 'backlog' | 'wake' | null {
    if (this.#ample.size > 0 && this.#isWorthClaimingAhead()) return 'backlog'
    const idle = this.#wantsSlot ? this.#deps.slots.idle() : 0
    if (idle === 0) return null
    return idle * IDLE_PART >= this.#deps.settings.concurrency ? 'backlog' : 'wake'
  }

  /** Whether half of what may wait here has been started. */
  #isWorthClaimingAhead(): boolean {
    const { room, most } = this.#deps.slots.ahead(AHEAD_MS)
    return room > 0 && room * 2 >= most
  }

  woken(queue: string): void {
    if (this.#states.has(queue)) this.#isWoken = true
  }

  /** N jobs of this worker were settled. If others wait for their slots, and they are many, claims need not keep their pace. */
  freed(jobs: number): void {
    if (this.#isWoken && jobs * IDLE_PART >= this.#deps.settings.concurrency) this.#wantsSlot = true
    this.#isWoken = false
  }

  beginRound(): void {
    this.#wantsSlot = false
  }

  /** Cuts the shares of these queues down to the idle slots and what may be claimed ahead. Queues that get nothing because the others took
   *  those are asked next, if these have nothing; without any idle slot, when there is one. */
  cap(shares: readonly Share[]): { readonly asked: readonly Share[]; readonly done: ReadonlySet<string> } {
    const asked: Share[] = []
    const done = new Set<string>()
    let idle = this.#deps.slots.idle()
    let ahead = this.#plentiful.size > 0 ? Math.max(0, this.#deps.slots.ahead(AHEAD_MS).room) : 0
    const hasIdle = idle > 0
    for (const { queue, limit } of shares) {
      const isFlow = this.#states.has(queue)
      const capped = isFlow ? Math.min(limit, idle + (this.#plentiful.has(queue) ? ahead : 0)) : limit
      const share = isFlow ? { queue, limit: capped, ahead: Math.max(0, capped - idle) } : { queue, limit }
      if (isFlow) {
        ahead -= share.ahead ?? 0
        idle = Math.max(0, idle - capped)
      }
      if (capped > 0) asked.push(share)
      else if (limit > 0 && !hasIdle) this.#wantsSlot = true
      if (capped > 0 || (limit > 0 && !hasIdle)) done.add(queue)
    }
    return { asked, done }
  }

  /** Keeps what a claim said. */
  learn(asked: readonly Share[], { flow = [], jobs }: Pick<Claim, 'flow' | 'jobs'>): void {
    for (const state of flow) {
      this.#states.set(state.queue, state)
      const own = jobs.filter(({ queue }) => queue === state.queue)
      if (own.some(hasLimits)) this.#careful.add(state.queue)
      const share = asked.find(({ queue }) => queue === state.queue)
      const isPlentiful = state.more && !this.#careful.has(state.queue)
      if (isPlentiful) this.#plentiful.add(state.queue)
      else this.#plentiful.delete(state.queue)
      // One group with many jobs gives its turn and no more: not worth a claim of its own.
      const isAmple = share === undefined || own.length * AMPLE_PART >= share.limit
      if (!isPlentiful || !isAmple) this.#ample.delete(state.queue)
      else if (share?.ahead !== 0) this.#ample.add(state.queue)
      if (state.more) this.#wantsSlot = true
      for (const limit of state.probed ?? []) this.#deps.emit({ name: 'breaker.probed', limit })
      if (!state.more && state.waitMs !== null) this.#tellHeld(state.queue, state.waitMs)
    }
  }

  #tellHeld(queue: string, waitMs: number): void {
    const nowMs = this.#deps.ports.clock.monotonic()
    if (nowMs - (this.#toldMs.get(queue) ?? Number.NEGATIVE_INFINITY) < HELD_EVERY_MS) return
    this.#toldMs.set(queue, nowMs)
    this.#deps.emit({ name: 'job.held', queue, waitMs })
  }
}

function hasLimits({ flow }: ClaimedJob): boolean {
  return flow !== undefined && flow.limits.length > 0
}
