// The life of a job, as a store keeps it: written, claimed, held, settled. Clients and workers take this part of the contract.
// store.ts has the rules that hold for all three parts. ◄── client/group-commit.ts · next: stores/postgres/enqueue.ts

import type { FlowRequest, FlowStore } from './flow/contract.js'
import type { FlowState } from './flow/views.js'
import type { ClaimedJob, Enqueued, JobNote, Lease, NewJob, SettledJob } from './job.js'
import type { KeptStore } from './kept/contract.js'
import type { QueueParts } from './queue-parts.js'
import type { ClaimOnEnqueue } from './reserve.js'
import type { JobState } from './states.js'
import type { StoreListener } from './store-listener.js'
import type { Ending, JobView, WorkerBeat } from './views.js'

/** The most jobs one call of enqueue, claim, extend or settle takes. Callers cut larger work into pieces. */
export const BATCH_MAX = 5_000

/** Anything a query can be sent to inside the caller's transaction: a pg client, or an adapter of one line. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

export interface EnqueueRequest {
  /** The caller's transaction: the jobs exist exactly if it commits. */
  readonly tx?: Queryable
  /** Leases the first jobs for a worker in the same step. */
  readonly claim?: ClaimOnEnqueue | undefined
  /** Those of the jobs whose keys were held a moment ago. While they are, the store may raise that without trying to write. */
  readonly wereHeld?: readonly NewJob[]
}

export interface ClaimRequest extends FlowRequest {
  /** Which queues to take from, in this order, and how many of each at most. `ahead`: how many of these the worker has no slot for yet. Under
   *  flow control a group gives no more than one turn for them (flow/contract.ts); elsewhere they are jobs like the others. Default 0. */
  readonly queues: readonly { readonly queue: string; readonly limit: number; readonly ahead?: number }[]
  /** The types the worker knows; jobs of others are left alone. Null takes any. */
  readonly types: readonly string[] | null
  readonly worker: string
  readonly leaseMs: number
}

export interface Claim {
  /** In the order they should run: by queue as requested, then highest priority, then longest ready; in turns under flow control. */
  readonly jobs: readonly ClaimedJob[]
  /** The store's time of the claim. */
  readonly nowMs: number
  /** How long the longest-waiting of the jobs had been ready; null when there are none. */
  readonly waitedMs: number | null
  /** For each of the queues that has flow control, what was found there, in the order of the request. Absent when none has. */
  readonly flow?: readonly FlowState[]
}

export interface Extension {
  /** Leases that no longer hold: another claim, a settlement or an operator ended them. */
  readonly lost: readonly Lease[]
  /** Leases whose job somebody asked to cancel. They are extended all the same. */
  readonly cancelled: readonly Lease[]
}

export interface Watch extends Extension {
  /** Of the leases that no longer hold: those under which the job was settled, for example by the handler's own transaction. */
  readonly settled: readonly Lease[]
}

interface SettleRequest {
  /** The caller's transaction: the settlement holds exactly if it commits. */
  readonly tx?: Queryable
  /** Settles only jobs whose lease has run out. For rescue. */
  readonly onlyExpired?: boolean
}

export interface SettleResult extends Lease {
  /** `settled`, also when this very settlement took effect earlier. `lost` when the lease no longer holds. `locked` when an open
   *  transaction is settling the job, usually its handler's own: the lease holds, nothing has changed, and the settlement can be
   *  sent again later. */
  readonly result: 'settled' | 'lost' | 'locked'
  /** The job's state afterwards: a cancel requested while it ran turns a retry or a release into `cancelled`. */
  readonly state: JobState | null
}

/** How a heartbeat thread extends leases without the main thread: the module it loads and the settings it gets. */
export interface ExtenderSpec {
  readonly kind: 'memory' | 'postgres' | 'redis'
  /** URL of a module that exports `openExtender(data): Promise<{ extend, close }>`; null where the program was bundled. */
  readonly module: string | null
  /** Structured-cloneable settings for it. */
  readonly data: unknown
  /** Answers what the thread asks the main thread for while it runs: the password of a new connection, where that changes. */
  readonly secret?: () => Promise<string>
  /** Called when the thread has ended. */
  readonly onEnd?: () => void
}

/** The life of a job, in order. */
export interface JobStore extends FlowStore, KeptStore {
  /**
   * Writes jobs, all or none, and answers for each in order. A job whose idempotency key is held is not written: the answer has
   * the holder's id and `created: false`. A job whose id is already known is left as it is. With `claim` the first jobs are
   * leased in the same step, as if a claim had followed that found no earlier jobs; a store may claim fewer or none, and it claims
   * none of a paused queue and none that it knew before. Without `tx` it never waits for a key that an open transaction elsewhere
   * is writing: it writes nothing and raises the error of `heldKeys`. With `tx` it raises what the transaction raises, and the
   * caller begins that again.
   * flow/contract.ts says what flow control adds to this call, to claim and to settle; kept/contract.ts what long jobs add.
   */
  enqueue(jobs: readonly NewJob[], request?: EnqueueRequest): Promise<readonly Enqueued[]>

  /** Leases ready jobs: each moves to running with its attempt and fence counted up. No two claims get the same job. */
  claim(request: ClaimRequest): Promise<Claim>

  /** Records that the handlers of these leases are about to start. Used only for jobs that crashed before, so that a job that only
   *  waited next to the one that crashes is not blamed. Lost leases are passed over. */
  begin(leases: readonly Lease[]): Promise<void>

  /** Makes leases last `leaseMs` from now. Each counts by itself; the lost ones are reported. */
  extend(leases: readonly Lease[], leaseMs: number): Promise<Extension>

  /** Which of these leases have a job that somebody asked to cancel, no longer hold, or ended with a settlement. Changes nothing. */
  watch(leases: readonly Lease[]): Promise<Watch>

  /** Keeps progress and log lines of running jobs. Those of lost leases are dropped. */
  note(notes: readonly JobNote[]): Promise<void>

  /** Ends leases and moves their jobs to the states of their settlements. Each counts by itself: a lost one changes nothing and
   *  does not disturb its neighbours. */
  settle(jobs: readonly SettledJob[], request?: SettleRequest): Promise<readonly SettleResult[]>

  /** One job with its history, or null. */
  get(id: string): Promise<JobView | null>

  /** Those of the jobs that have finished. */
  endings(ids: readonly string[]): Promise<readonly Ending[]>

  /** The store's time. */
  now(): Promise<number>

  /** Records that a worker lives. */
  beat(worker: WorkerBeat): Promise<void>
  /** Records that a worker has stopped. */
  leave(workerId: string): Promise<void>

  /** Where a store keeps its queues apart; absent where all are in one. */
  readonly parts?: QueueParts

  /** Reports `ready` of these queues to the listeners of every process. For a program that has committed a transaction of its own;
   *  after every other call the store does this by itself. */
  wake(queues: readonly string[]): void
  /** Adds a listener and returns the function that removes it. */
  listen(listener: StoreListener): () => void
  /** Whether this listener does without what other processes announce, which costs them and it less. Resolves when that is in force: what
   *  becomes ready from then on is announced again. */
  mute(listener: StoreListener, isMuted: boolean): Promise<void>
  /** How a thread of its own can extend leases, or null where the store lives in this thread. */
  extender(): ExtenderSpec | null
}
