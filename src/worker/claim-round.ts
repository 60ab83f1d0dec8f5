// One round of claims over a worker's queues: whom to ask next, and for how many. ◄── fetcher.ts

import type { ClaimBatch } from '../core/flow/contract.js'
import type { Claim, ClaimRequest } from '../core/job-store.js'
import { FlowQueues, type FlowQueuesDeps } from './flow-queues.js'
import type { WorkerSettings } from './options.js'
import { noteDry, rotate, type Share, splitRoom, stillFull, WeightedShares } from './shares.js'

const REFILL_PART = 8

/** What the claims of one round, over all queues, brought. */
export interface Brought {
  readonly count: number
  /** How long the longest-waiting job had been ready. */
  readonly ageMs: number | null
  /** True while a queue may hold more. */
  readonly isFull: boolean
}

/** The queues of one worker, and what it knows of them. */
export class ClaimQueues {
  readonly flow: FlowQueues
  /** What every claim asks for, of whichever queue. */
  readonly wanted: Pick<ClaimRequest, 'types' | 'batches'>
  readonly #names: readonly string[]
  readonly #weights: WeightedShares | null
  /** Queues that were empty when they were last asked. */
  readonly #dry = new Set<string>()
  #turn = 0

  constructor(deps: FlowQueuesDeps & { readonly settings: WorkerSettings; readonly batches: readonly ClaimBatch[] }) {
    const { settings, batches } = deps
    const types = [...settings.handlers.keys()]
    this.wanted = batches.length === 0 ? { types } : { types, batches }
    this.flow = new FlowQueues(deps)
    this.#names = settings.queues
    this.#weights = settings.weights === null ? null : new WeightedShares(settings.weights)
  }

  /** Begins a round: each queue is asked once, and once more those that gave their whole share, while there is room. */
  beginRound(roomAtFirst: number): ClaimRound {
    this.flow.beginRound()
    return new ClaimRound(this, rotate(this.#names, this.#turn++), roomAtFirst)
  }

  get count(): number {
    return this.#names.length
  }

  split(queues: readonly string[], room: number): readonly Share[] {
    return this.#weights?.split(queues, room) ?? splitRoom(queues, room, this.#dry)
  }

  /** Keeps what a claim found; answers with the queues that may have more. */
  learn(asked: readonly Share[], claim: Claim): readonly string[] {
    this.flow.learn(asked, claim)
    noteDry(this.#dry, asked, claim.jobs)
    return stillFull(asked, claim.jobs, this.flow.states)
  }
}

/** One round. */
class ClaimRound {
  readonly #queues: ClaimQueues
  readonly #roomAtFirst: number
  #unasked: readonly string[]
  #full: string[] = []
  #isRefill = false

  constructor(queues: ClaimQueues, unasked: readonly string[], roomAtFirst: number) {
    this.#queues = queues
    this.#unasked = unasked
    this.#roomAtFirst = roomAtFirst
  }

  /** True while a queue may hold more. */
  get isFull(): boolean {
    return this.#unasked.length + this.#full.length > 0
  }

  /** Whom to ask next; null when the round is over. */
  next(room: number): readonly Share[] | null {
    while (room > 0) {
      if (this.#unasked.length === 0 && !this.#refill(room)) return null
      const { asked, done } = this.#queues.flow.cap(this.#queues.split(this.#unasked, room))
      // With less room than queues the last of them are asked when the first have nothing.
      this.#unasked = this.#unasked.filter((queue) => !done.has(queue))
      if (asked.length > 0) return asked
    }
    return null
  }

  #refill(room: number): boolean {
    // A queue that never runs empty must not keep the round from ending: the others get their turn again in the next.
    if (this.#isRefill || this.#full.length === 0 || this.#full.length === this.#queues.count) return false
    // Not worth another round trip for less than an eighth of the room.
    if (room * REFILL_PART < this.#roomAtFirst) return false
    this.#isRefill = true
    this.#unasked = this.#full
    this.#full = []
    return true
  }

  answered(asked: readonly Share[], claim: Claim): void {
    this.#full.push(...this.#queues.learn(asked, claim))
  }
}
