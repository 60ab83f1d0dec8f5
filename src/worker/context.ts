// What a handler is given beside its payload. Everything in it is made when it is asked for.

import type { Completed, JobContext, JobDefinition } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError } from '../core/errors.js'
import { checkCost } from '../core/flow/resolve.js'
import type { Queryable } from '../core/job-store.js'
import { encodeResult } from '../core/json.js'
import { checkResult } from '../core/result.js'
import type { FailableContext } from './current-job.js'
import type { HeldJob } from './held-job.js'
import type { RemoteContext } from './isolation.js'
import { keeperOf, keeperPort, leaseLost } from './keeper-port.js'
import { enqueueChild, lastProgress, noConnection, parentEnds, parentResults } from './lookup.js'
import { Notes, writeNotes } from './notes.js'
import { rateLimited, SnoozeJob } from './outcome.js'
import type { RunScope } from './run.js'

/** The context of one attempt. */
export class RunContext implements RemoteContext, FailableContext {
  readonly #held: HeldJob
  readonly #scope: RunScope
  readonly #fail: (held: HeldJob, scope: RunScope, thrown: unknown) => void

  constructor(held: HeldJob, scope: RunScope, fail: (held: HeldJob, scope: RunScope, thrown: unknown) => void) {
    this.#held = held
    this.#scope = scope
    this.#fail = fail
  }

  get id(): string {
    return this.#held.id
  }

  get type(): string {
    return this.#held.job.type
  }

  get queue(): string {
    return this.#held.job.queue
  }

  get attempt(): number {
    return this.#held.attempt
  }

  get maxAttempts(): number {
    return this.#held.limits.maxAttempts
  }

  get fence(): number {
    return this.#held.fence
  }

  get createdAt(): Date {
    return new Date(this.#held.createdAtMs)
  }

  get tags(): readonly string[] {
    return this.#held.job.tags
  }

  get group(): string | null {
    return this.#held.job.flow?.group ?? null
  }

  get schedule(): JobContext['schedule'] {
    const made = this.#held.job.origin?.schedule ?? null
    return made === null ? null : { name: made.name, tick: new Date(made.tickMs) }
  }

  get parents(): readonly string[] {
    return this.#held.job.origin?.after ?? []
  }

  get enqueuedBy(): string | null {
    return this.#held.job.origin?.enqueuedBy ?? null
  }

  get holdfast(): JobContext['holdfast'] {
    const { holdfast } = this.#scope
    if (holdfast === null) throw noConnection('holdfast', 'by a worker without a connection')
    return holdfast
  }

  get enqueue(): JobContext['enqueue'] {
    const by = { enqueuedBy: this.id }
    return ((job: never, payload: never, options?: { readonly child?: string }) => {
      const send = () => this.holdfast.enqueue(job, payload, { ...options, ...by })
      if (options?.child === undefined) return send()
      return enqueueChild(keeperOf(this.#held, this.#scope), this.holdfast, options.child, send)
    }) as JobContext['enqueue']
  }

  get parentResults(): JobContext['parentResults'] {
    return ((jobs?: JobDefinition | readonly JobDefinition[]) =>
      parentResults(this.#scope.store, this.parents, jobs)) as JobContext['parentResults']
  }

  get parentEnds(): JobContext['parentEnds'] {
    return () => parentEnds(this.#scope.store, this.parents)
  }

  get lastProgress(): JobContext['lastProgress'] {
    return (() => lastProgress(this.#scope.store, this)) as JobContext['lastProgress']
  }

  /** What the keeper of a handler in a child stands on. */
  get keeping(): RemoteContext['keeping'] {
    return keeperPort(this.#held, this.#scope)
  }

  /** Whether the job was lost with a worker before. */
  get isSuspect(): boolean {
    return this.#held.crashes > 0
  }

  /** How many jobs of its group were claimed with it as one batch, if it was. */
  get batch(): number | undefined {
    return this.#held.job.batch
  }

  /** When the claim that brought it was sent, monotonic. */
  get claimSentMs(): number {
    return this.#held.claimSentMs
  }

  /** Its place in the order in which the worker was given its jobs. */
  get order(): number {
    return this.#held.order
  }

  get trace(): string | null {
    return this.#held.job.trace
  }

  get signal(): AbortSignal {
    return this.#held.signal
  }

  // Functions and not methods, so that a handler may take them out: async (payload, { signal, log }) => …

  get progress(): JobContext['progress'] {
    return (value) => this.#notes()?.progress(value)
  }

  get log(): JobContext['log'] {
    return (text) => this.#notes()?.log(asText(text), this.#scope.storeTime.nowMs())
  }

  get snooze(): JobContext['snooze'] {
    return snooze
  }

  get rateLimited(): JobContext['rateLimited'] {
    return rateLimited
  }

  get step(): JobContext['step'] {
    return keeperOf(this.#held, this.#scope).step
  }

  get once(): JobContext['once'] {
    return keeperOf(this.#held, this.#scope).once
  }

  get waitFor(): JobContext['waitFor'] {
    return keeperOf(this.#held, this.#scope).waitFor
  }

  get write(): JobContext['write'] {
    return keeperOf(this.#held, this.#scope).write
  }

  get waitForChildren(): JobContext['waitForChildren'] {
    return keeperOf(this.#held, this.#scope).waitForChildren
  }

  get spent(): JobContext['spent'] {
    return (cost) => {
      this.#held.spent = checkCost(cost)
    }
  }

  get complete(): JobContext['complete'] {
    return (tx, result) => this.#complete(tx, result) as Promise<Completed>
  }

  async #complete(tx: Queryable, returned: unknown): Promise<void> {
    const held = this.#held
    if (held.phase === 'ended' || held.isLost) throw leaseLost(held)
    if (typeof tx?.query !== 'function') {
      throw new HoldfastError('invalid_option', 'complete(tx) takes a client with query(text, values) in a transaction')
    }
    const result = await checkResult(held.handler.definition as JobDefinition, returned)
    held.isCompleting = true
    // The transaction ends the lease, and what is noted after that is dropped.
    await Promise.all([writeNotes([held], this.#scope), held.keeper?.written()])
    const { attempt, crashes, job } = held
    const settled = {
      id: held.id,
      fence: held.fence,
      queue: job.queue,
      settlement: { state: 'succeeded', attempt, crashes },
      result: encodeResult(result),
      error: null,
      ranMs: Math.round(this.#scope.clock.monotonic() - held.startedMs),
      idempotencyKey: job.idempotencyKey,
      ...(job.flow === undefined ? {} : { flow: job.flow }),
      ...(held.spent === null ? {} : { spent: held.spent }),
    } as const
    const [answer] = await this.#scope.store.settle([settled], { tx })
    if (answer?.result === 'settled') return
    held.isCompleting = false
    this.#scope.onLost(held)
    throw leaseLost(held)
  }

  runsIn(scope: unknown): boolean {
    return this.#scope === scope && this.#held.phase !== 'ended'
  }

  failUncaught(error: unknown): void {
    this.#fail(this.#held, this.#scope, error)
  }

  // An attempt that has ended notes nothing more, whatever its handler left running.
  #notes(): Notes | null {
    if (this.#held.phase === 'ended') return null
    this.#held.notes ??= new Notes()
    return this.#held.notes
  }
}

function snooze(delay: Duration): never {
  throw new SnoozeJob(durationMs(delay, { name: 'delay' }))
}

function asText(value: unknown): string {
  try {
    return String(value)
  } catch {
    return 'a value that cannot be shown'
  }
}
