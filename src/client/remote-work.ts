// Jobs for workers that are no part of this process and speak another language: claimed, extended and settled on their behalf, with the
// fences, bounds and rules that a worker here has. Nothing is kept here between two calls: what a settlement must know of the claim comes
// back with it (server/lease-token.ts). ◄── server/routes/work.ts

import { decide, decideBeforeRun, type Outcome, type Settlement } from '../core/decide.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import { type HoldOffScope, holdOffOf } from '../core/flow/hold-off.js'
import type { JobFlow } from '../core/flow/job-flow.js'
import type { ClaimedJob, IdempotencyKey, JobNote, Lease, SettledJob } from '../core/job.js'
import type { JobStore, SettleResult } from '../core/job-store.js'
import { encodeResult, type StoredError } from '../core/json.js'
import { type ResolvedLimits, resolveLimits } from '../core/limits.js'
import type { TallySink } from '../core/operating.js'
import { SEALED_VERSION } from '../core/payload.js'
import { type Ports, sleep } from '../core/ports.js'

/** What must be known of a claim to end it. */
export interface RemoteLease extends Lease {
  readonly type: string
  readonly attempt: number
  readonly crashes: number
  readonly createdAtMs: number
  readonly claimedAtMs: number
  readonly limits: ResolvedLimits
  readonly idempotencyKey: IdempotencyKey | null
  readonly flow: JobFlow | null
}

export interface RemoteJob extends RemoteLease {
  /** JSON text. */
  readonly payload: string
  readonly version: number
  readonly priority: number
  readonly tags: readonly string[]
  readonly trace: string | null
}

export interface RemoteClaim {
  readonly worker: string
  readonly queues: readonly string[]
  readonly types: readonly string[] | null
  readonly limit: number
  readonly leaseMs: number
  /** How long to wait for a job when there is none. */
  readonly waitMs: number
  /** Fires when nobody waits for the answer any more. */
  readonly signal: AbortSignal
}

/** How an attempt ended, as its worker says. */
export type RemoteOutcome =
  | { readonly kind: 'succeeded'; readonly result: unknown }
  | {
      readonly kind: 'failed'
      readonly error: StoredError
      readonly retryable: boolean
      readonly delayMs: number | null
    }
  | { readonly kind: 'dropped' | 'invalid'; readonly error: StoredError }
  | { readonly kind: 'released' | 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'rate_limited'; readonly delayMs: number; readonly scope: HoldOffScope | null }
  | { readonly kind: 'cancelled' }

/** What a worker learns about a lease it wants to keep. `timed_out`: its time is over, and it was not extended. */
export type Held = 'held' | 'lost' | 'cancelled' | 'timed_out'

interface RemoteWorkDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly tally?: TallySink | undefined
  /** The store's time. */
  nowMs(): number
}

/** Without a wake-up a waiting claim looks again after this time. */
const LOOK_AGAIN_MS = 1_000
/** As a worker without the codec waits. */
const SEALED_DELAY_MS = 10_000
/** The most claims that wait. One more is answered immediately. */
const WAITING_MAX = 1_000

interface Waiter {
  readonly queues: readonly string[]
  wake(): void
  /** Its wait is over, whatever time is left. */
  isOver: boolean
}

interface Hearing {
  readonly next: Promise<void>
  isOver(): boolean
  end(): void
}

export class RemoteWork {
  readonly #deps: RemoteWorkDeps
  readonly #waiting = new Set<Waiter>()
  #stopListening: (() => void) | null = null
  #waits = 0
  #turn = 0

  constructor(deps: RemoteWorkDeps) {
    this.#deps = deps
  }

  /** Leases up to `limit` jobs, and waits for the first of them. Those that may not run any more are settled, as a worker here would. */
  async claim(request: RemoteClaim): Promise<readonly RemoteJob[]> {
    const { clock } = this.#deps.ports
    const untilMs = clock.monotonic() + request.waitMs
    for (;;) {
      // Listening begins before the look, so that nothing becomes ready between the two unseen.
      const heard = this.#hear(request, untilMs - clock.monotonic())
      try {
        const jobs = request.signal.aborted ? [] : await this.#claimOnce(request)
        if (jobs.length > 0 || request.signal.aborted || heard === null) return this.#given(jobs, request)
        this.#waits++
        await heard.next.finally(() => this.#waits--)
        if (heard.isOver() || clock.monotonic() >= untilMs || request.signal.aborted) return []
      } finally {
        heard?.end()
      }
    }
  }

  /** What was claimed for somebody who has left goes back. There may be more for the next who waits. */
  async #given(jobs: readonly RemoteJob[], { signal, queues }: RemoteClaim): Promise<readonly RemoteJob[]> {
    if (jobs.length > 0) this.#wakeOne(queues)
    if (!signal.aborted || jobs.length === 0) return jobs
    await this.settle(jobs.map((lease) => ({ lease, outcome: { kind: 'released', delayMs: 0 } })))
    return []
  }

  async #claimOnce({ queues, types, worker, leaseMs, limit }: RemoteClaim): Promise<RemoteJob[]> {
    const { store } = this.#deps
    const jobs: RemoteJob[] = []
    const first = this.#turn++ % queues.length
    for (const queue of [...queues.slice(first), ...queues.slice(0, first)]) {
      if (jobs.length >= limit) break
      const asked = [{ queue, limit: limit - jobs.length }]
      const claim = await store.claim({ queues: asked, types, worker, leaseMs })
      jobs.push(...claim.jobs.map((job) => remoteJob(job, claim.nowMs)))
    }
    const runnable = await this.#settleDead(jobs)
    // A job that was lost with its worker before is blamed for the next one that ends with it.
    const suspects = runnable.filter(({ crashes }) => crashes > 0)
    if (suspects.length > 0) await store.begin(suspects)
    return runnable
  }

  async #settleDead(jobs: readonly RemoteJob[]): Promise<RemoteJob[]> {
    const runnable: RemoteJob[] = []
    const dead: SettledJob[] = []
    for (const job of jobs) {
      const settlement = decideBeforeRun(job, this.#deps.nowMs()) ?? this.#closed(job)
      if (settlement === null) runnable.push(job)
      else dead.push(settledJob(job, settlement, {}))
    }
    if (dead.length > 0) await this.#send(dead)
    return runnable
  }

  /** A payload that this server cannot open waits for one that can, or for a worker of its own. */
  #closed(job: RemoteJob): Settlement | null {
    if (job.version < SEALED_VERSION) return null
    return decide(job, { kind: 'released', delayMs: SEALED_DELAY_MS }, this.#deps.nowMs(), () => 0)
  }

  /** Makes leases last `leaseMs` from now, but those whose job has had its time. */
  async extend(leases: readonly RemoteLease[], leaseMs: number): Promise<readonly Held[]> {
    const nowMs = this.#deps.nowMs()
    const isOver = ({ limits, claimedAtMs }: RemoteLease) =>
      limits.timeoutMs !== null && nowMs - claimedAtMs > limits.timeoutMs
    const inTime = leases.filter((lease) => !isOver(lease))
    const { lost, cancelled } = inTime.length === 0 ? NOTHING : await this.#deps.store.extend(inTime, leaseMs)
    const isAmong = (some: readonly Lease[], { id, fence }: Lease) =>
      some.some((one) => one.id === id && one.fence === fence)
    return leases.map((lease) => {
      if (isOver(lease)) return 'timed_out'
      if (isAmong(lost, lease)) return 'lost'
      return isAmong(cancelled, lease) ? 'cancelled' : 'held'
    })
  }

  /** Ends attempts: decides what becomes of each job, and settles it under its fence. */
  async settle(
    ends: readonly { readonly lease: RemoteLease; readonly outcome: RemoteOutcome }[],
  ): Promise<readonly SettleResult[]> {
    await this.#checkCancelled(ends.filter(({ outcome }) => outcome.kind === 'cancelled').map(({ lease }) => lease))
    const { random } = this.#deps.ports
    const nowMs = this.#deps.nowMs()
    const settled = ends.map(({ lease, outcome }) => {
      const holdOff =
        outcome.kind === 'rate_limited' ? holdOffOf(outcome.scope, outcome.delayMs, lease.flow ?? undefined) : null
      const settlement = decide(lease, outcomeOf(outcome, holdOff !== null), nowMs, () => random.float())
      return settledJob(lease, settlement, {
        result: outcome.kind === 'succeeded' ? encodeResult(outcome.result) : null,
        error: 'error' in outcome ? outcome.error : null,
        ranMs: Math.max(0, Math.round(nowMs - lease.claimedAtMs)),
        ...(holdOff === null ? {} : { holdOff }),
      })
    })
    const results = await this.#send(settled)
    for (const [index, { result, state }] of results.entries()) {
      const { lease } = ends[index]!
      const waitMs = lease.attempt === 1 ? lease.claimedAtMs - lease.createdAtMs : null
      if (result === 'settled' && state !== null) this.#deps.tally?.ended(settled[index]!, state, waitMs)
    }
    await this.#report(ends.filter((_, index) => results[index]!.result === 'settled'))
    return results
  }

  async #send(settled: readonly SettledJob[]): Promise<readonly SettleResult[]> {
    const results = await this.#deps.store.settle(settled)
    const byName = new Map(results.map((result) => [`${result.id} ${result.fence}`, result]))
    return settled.map(({ id, fence }) => byName.get(`${id} ${fence}`)!)
  }

  // Only who was asked to may cancel: a handler that wants its job gone drops it.
  async #checkCancelled(leases: readonly RemoteLease[]): Promise<void> {
    if (leases.length === 0) return
    const { cancelled, lost } = await this.#deps.store.watch(leases)
    const known = new Set([...cancelled, ...lost].map(({ id }) => id))
    const wrong = leases.find(({ id }) => !known.has(id))
    if (wrong === undefined) return
    throw new HoldfastError(
      'wrong_state',
      `job ${wrong.id} was not settled as cancelled: nobody has asked to cancel it; settle it as dropped, failed or released`,
      { details: { id: wrong.id } },
    )
  }

  /** What became of jobs that name limits. Breakers go by it, and no settlement fails for it. */
  async #report(ends: readonly { readonly lease: RemoteLease; readonly outcome: RemoteOutcome }[]): Promise<void> {
    const counts = new Map<string, { limit: string; ok: number; failed: number; overloaded: number }>()
    for (const { lease, outcome } of ends) {
      for (const limit of lease.flow?.limits ?? []) {
        const count = counts.get(limit) ?? { limit, ok: 0, failed: 0, overloaded: 0 }
        if (outcome.kind === 'succeeded') count.ok++
        else if (outcome.kind === 'failed') count.failed++
        else if (outcome.kind === 'rate_limited') count.overloaded++
        else continue
        counts.set(limit, count)
      }
    }
    if (counts.size > 0) await this.#deps.store.observe([...counts.values()]).catch(() => [])
  }

  /** Keeps progress and log lines. Those of lost leases are dropped. */
  async note(notes: readonly JobNote[]): Promise<void> {
    await this.#deps.store.note(notes)
  }

  /** Shows the worker among those of this store. */
  async beat(worker: {
    readonly id: string
    readonly queues: readonly string[]
    readonly types: readonly string[] | null
    readonly concurrency: number
    readonly running: number
    readonly host: string
    readonly version: string
  }): Promise<void> {
    await this.#deps.store.beat({ ...worker, pid: 0, draining: false, jobs: [], children: null })
  }

  async leave(worker: string): Promise<void> {
    await this.#deps.store.leave(worker)
  }

  /** How many claims wait for jobs. */
  get waiting(): number {
    return this.#waits
  }

  /** Ends every wait. */
  close(): void {
    for (const waiter of this.#waiting) {
      waiter.isOver = true
      waiter.wake()
    }
  }

  /** Hears of the next job of these queues; null when there is no time, or no place, to wait. */
  #hear({ queues, signal }: RemoteClaim, leftMs: number): Hearing | null {
    if (leftMs <= 0 || this.#waiting.size >= WAITING_MAX) return null
    const ended = new AbortController()
    const waiter: Waiter = { queues, wake: () => ended.abort(), isOver: false }
    this.#waiting.add(waiter)
    signal.addEventListener('abort', waiter.wake, { once: true })
    this.#stopListening ??= this.#deps.store.listen({ ready: (queue) => this.#wakeOne([queue]) })
    return {
      next: sleep(this.#deps.ports.timers, Math.min(leftMs, LOOK_AGAIN_MS), ended.signal),
      isOver: () => waiter.isOver,
      end: () => {
        signal.removeEventListener('abort', waiter.wake)
        ended.abort()
        this.#waiting.delete(waiter)
        if (this.#waiting.size > 0) return
        this.#stopListening?.()
        this.#stopListening = null
      },
    }
  }

  // One at a time, or a thousand would ask for one job. Who gets jobs wakes the next.
  #wakeOne(queues: readonly string[]): void {
    for (const waiter of this.#waiting) {
      if (!waiter.queues.some((queue) => queues.includes(queue))) continue
      this.#waiting.delete(waiter)
      waiter.wake()
      return
    }
  }
}

const NOTHING = { lost: [], cancelled: [] } as const

function remoteJob(job: ClaimedJob, nowMs: number): RemoteJob {
  const { id, fence, queue, type, attempt, crashes, createdAtMs, idempotencyKey, flow = null } = job
  const { payload, version, priority, tags, trace } = job
  const limits = resolveLimits(job.limits, job.queueLimits)
  return {
    ...{ id, fence, queue, type, attempt, crashes, createdAtMs, idempotencyKey, flow, limits, claimedAtMs: nowMs },
    ...{ payload, version, priority, tags, trace },
  }
}

function outcomeOf(outcome: RemoteOutcome, isShared: boolean): Outcome {
  switch (outcome.kind) {
    case 'failed':
      return { kind: 'failed', retryable: outcome.retryable, delayMs: outcome.delayMs }
    case 'rate_limited':
      return { kind: 'rate_limited', delayMs: outcome.delayMs, isShared }
    case 'released':
    case 'snoozed':
      return { kind: outcome.kind, delayMs: outcome.delayMs }
    case 'succeeded':
    case 'cancelled':
    case 'dropped':
    case 'invalid':
      return { kind: outcome.kind }
    default:
      throw invalidOption('the outcome of an attempt must be one of those in the guide', outcome)
  }
}

function settledJob(
  { id, fence, queue, idempotencyKey, flow }: RemoteLease,
  settlement: Settlement,
  {
    result = null,
    error = null,
    ranMs = null,
    holdOff,
  }: Partial<Pick<SettledJob, 'result' | 'error' | 'ranMs' | 'holdOff'>>,
): SettledJob {
  return {
    ...{ id, fence, queue, settlement, result, error, ranMs, idempotencyKey },
    ...(flow === null ? {} : { flow }),
    ...(holdOff === undefined ? {} : { holdOff }),
  }
}
