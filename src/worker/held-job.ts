// One claimed job that a worker holds, from its claim until its settlement is confirmed. ◄── slots.ts · next: run.ts

import type { DecidedJob } from '../core/decide.js'
import type { AbortCause, Handler } from '../core/definition.js'
import { type ErrorCode, HoldfastError } from '../core/errors.js'
import type { ClaimedJob, Lease, SettledJob } from '../core/job.js'
import { type ResolvedLimits, resolveLimits } from '../core/limits.js'
import type { RemoteRun } from './isolation.js'
import type { Keeper } from './keeper.js'
import type { Notes } from './notes.js'
import type { ParkedJob } from './outcome.js'

/** waiting: prefetched. starting: has a slot, its handler not called yet. ended: its settlement is sent, or none is needed. */
export type Phase = 'waiting' | 'starting' | 'running' | 'ended'

const CODES: Readonly<Record<AbortCause, ErrorCode>> = {
  cancelled: 'job_cancelled',
  timed_out: 'timed_out',
  lease_lost: 'lease_lost',
  shutdown: 'aborted',
}

/** What the worker knows about a job it holds. Fields change as the job goes on; what is rare is made when needed. */
export class HeldJob implements Lease, DecidedJob {
  readonly id: string
  readonly fence: number
  readonly queue: string
  readonly job: ClaimedJob
  readonly handler: Handler
  readonly attempt: number
  readonly crashes: number
  readonly createdAtMs: number
  readonly limits: ResolvedLimits
  /** When its claim was sent, and when the answer arrived; monotonic. The lease lasts at least from the first. */
  readonly claimSentMs: number
  readonly heldMs: number
  /** Its place in the lease table, and in the order in which the worker was given its jobs. */
  readonly leaseSlot: number
  readonly order: number
  phase: Phase = 'waiting'
  /** Its place among the running jobs. */
  place = -1
  startedMs = 0
  /** True once the handler was called. */
  hasRun = false
  /** When deadlines.ts looks at it next: its timeout, then the end of its grace; monotonic. */
  deadlineMs: number = Number.POSITIVE_INFINITY
  isLost = false
  /** True once the handler called `complete()`: the store knows whether the job is settled, this process does not. */
  isCompleting = false
  notes: Notes | null = null
  /** What it keeps between attempts, made when the handler asks; and what told the handler to leave, whatever it does with that. */
  keeper: Keeper | null = null
  parked: ParkedJob | null = null
  /** The handler, while it runs in a child. */
  remote: RemoteRun | null = null
  settled: SettledJob | null = null
  /** What the handler said that this attempt cost. */
  spent: number | null = null
  /** What its handler threw. */
  thrown: unknown = undefined
  /** True when the store refused the settlement and it goes without result and error. */
  isStripped = false
  /** Why its handler was told to stop, and the error that its signal carries. Only `abort` sets them. */
  abortCause: AbortCause | null = null
  abortReason: HoldfastError | null = null
  #controller: AbortController | null = null

  constructor(
    job: ClaimedJob,
    handler: Handler,
    claim: { readonly sentMs: number; readonly heldMs: number; readonly leaseSlot: number; readonly order: number },
  ) {
    this.id = job.id
    this.fence = job.fence
    this.queue = job.queue
    this.job = job
    this.handler = handler
    this.attempt = job.attempt
    this.crashes = job.crashes
    this.createdAtMs = job.createdAtMs
    this.limits = resolveLimits(job.limits, handler.definition.limits, job.queueLimits)
    this.claimSentMs = claim.sentMs
    this.heldMs = claim.heldMs
    this.leaseSlot = claim.leaseSlot
    this.order = claim.order
  }

  /** Made when it is first used: most handlers never use it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.abortReason !== null) this.#controller.abort(this.abortReason)
    }
    return this.#controller.signal
  }

  /** Tells the handler to stop. The first cause counts; returns false when there was one before. */
  abort(cause: AbortCause, message: string): boolean {
    if (this.abortCause !== null) return false
    this.abortCause = cause
    this.abortReason = new HoldfastError(CODES[cause], message, { details: { id: this.id, attempt: this.attempt } })
    this.#controller?.abort(this.abortReason)
    this.remote?.abort()
    return true
  }
}
