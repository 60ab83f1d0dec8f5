// What a handler is given beside its payload when it runs in a child. It has all that a handler in the worker's own process has.

import type { Completed, Handler, JobContext, JobDefinition } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { type ErrorCode, HoldfastError } from '../core/errors.js'
import { checkCost } from '../core/flow/resolve.js'
import type { Queryable } from '../core/job-store.js'
import { encodeResult } from '../core/json.js'
import type { Recalled } from '../core/kept/kept.js'
import { checkResult } from '../core/result.js'
import type { Ending } from '../core/views.js'
import type { FailableContext } from '../worker/current-job.js'
import { attemptOver, Keeper, type KeeperPort, noWaitInBatch } from '../worker/keeper.js'
import { enqueueChild, parentEnds, parentResults } from '../worker/lookup.js'
import { Notes } from '../worker/notes.js'
import { ParkedJob, rateLimited, SnoozeJob } from '../worker/outcome.js'
import type { AskWorker } from './asks.js'
import { childHoldfast } from './child-holdfast.js'
import type { SentJob } from './protocol.js'

export interface ChildContextDeps {
  /** Something was noted: it is to be sent soon. */
  readonly onNoted: () => void
  /** Sends what was noted so far. */
  readonly sendNotes: () => void
  readonly ask: AskWorker
  /** The handler failed outside of its promise. */
  readonly fail: (error: unknown) => void
}

export class ChildContext implements FailableContext {
  readonly #job: SentJob
  readonly #handler: Handler
  readonly #deps: ChildContextDeps
  readonly notes: Notes = new Notes()
  isOver = false
  spentCost: number | null = null
  abortReason: HoldfastError | null = null
  /** What told the handler to leave, whatever it does with that. */
  parked: ParkedJob | null = null
  #controller: AbortController | null = null
  #keeper: Keeper | null = null
  #holdfast: JobContext['holdfast'] | null = null

  constructor(job: SentJob, handler: Handler, deps: ChildContextDeps) {
    this.#job = job
    this.#handler = handler
    this.#deps = deps
  }

  get id(): string {
    return this.#job.id
  }

  get type(): string {
    return this.#job.type
  }

  get queue(): string {
    return this.#job.queue
  }

  get attempt(): number {
    return this.#job.attempt
  }

  get maxAttempts(): number {
    return this.#job.maxAttempts
  }

  get fence(): number {
    return this.#job.fence
  }

  get createdAt(): Date {
    return new Date(this.#job.createdAtMs)
  }

  get tags(): readonly string[] {
    return this.#job.tags
  }

  get group(): string | null {
    return this.#job.group
  }

  get schedule(): JobContext['schedule'] {
    const made = this.#job.origin?.schedule ?? null
    return made === null ? null : { name: made.name, tick: new Date(made.tickMs) }
  }

  get parents(): readonly string[] {
    return this.#job.origin?.after ?? []
  }

  get enqueuedBy(): string | null {
    return this.#job.origin?.enqueuedBy ?? null
  }

  get holdfast(): JobContext['holdfast'] {
    this.#holdfast ??= childHoldfast(this.#deps.ask, this.trace)
    return this.#holdfast
  }

  get enqueue(): JobContext['enqueue'] {
    const by = { enqueuedBy: this.id }
    return ((job: never, payload: never, options?: { readonly child?: string }) => {
      const send = () => this.holdfast.enqueue(job, payload, { ...options, ...by })
      if (options?.child === undefined) return send()
      return enqueueChild(this.#keeping(), this.holdfast, options.child, send)
    }) as JobContext['enqueue']
  }

  get parentResults(): JobContext['parentResults'] {
    const store = { endings: (ids: readonly string[]) => this.#endings(ids) }
    return ((jobs?: JobDefinition | readonly JobDefinition[]) =>
      parentResults(store, this.parents, jobs)) as JobContext['parentResults']
  }

  get parentEnds(): JobContext['parentEnds'] {
    return () => parentEnds({ endings: (ids) => this.#endings(ids) }, this.parents)
  }

  get lastProgress(): JobContext['lastProgress'] {
    return (() => this.#deps.ask({ kind: 'lastProgress' })) as JobContext['lastProgress']
  }

  get step(): JobContext['step'] {
    return this.#keeping().step
  }

  get once(): JobContext['once'] {
    return this.#keeping().once
  }

  get waitForChildren(): JobContext['waitForChildren'] {
    return this.#keeping().waitForChildren
  }

  get write(): JobContext['write'] {
    return this.#keeping().write
  }

  get waitFor(): JobContext['waitFor'] {
    return this.#keeping().waitFor
  }

  get trace(): string | null {
    return this.#job.trace
  }

  /** Made at its first use: most handlers never look at it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.abortReason !== null) this.#controller.abort(this.abortReason)
    }
    return this.#controller.signal
  }

  // Functions and not methods, so that a handler may take them out: async (payload, { signal, log }) => …

  get progress(): JobContext['progress'] {
    return (value) => this.#note(() => this.notes.progress(value))
  }

  get log(): JobContext['log'] {
    // Its time is when it reaches the worker, which has the store's clock.
    return (text) => this.#note(() => this.notes.log(asText(text), 0))
  }

  get snooze(): JobContext['snooze'] {
    return snooze
  }

  get rateLimited(): JobContext['rateLimited'] {
    return rateLimited
  }

  get spent(): JobContext['spent'] {
    return (cost) => {
      this.spentCost = checkCost(cost)
    }
  }

  get complete(): JobContext['complete'] {
    return (tx, result) => this.#complete(tx, result) as Promise<Completed>
  }

  /** The worker settles the job; its statements come back here, to go through the handler's own transaction. */
  async #complete(tx: Queryable, returned: unknown): Promise<void> {
    const result = await checkResult(this.#handler.definition as JobDefinition, returned)
    if (typeof tx?.query !== 'function') {
      throw new HoldfastError('invalid_option', 'complete(tx) takes a client with query(text, values) in a transaction')
    }
    // The transaction ends the lease, and what is noted after that is dropped.
    this.#deps.sendNotes()
    await this.#keeper?.written()
    await this.#deps.ask({ kind: 'complete', result: encodeResult(result) }, tx)
  }

  /** Whether output is on its way. It arrives before the job ends: `next` is called when it has. */
  isWriting(next: () => void): boolean {
    return this.#keeper?.isBusy(next) === true
  }

  #keeping(): Keeper {
    this.#keeper ??= new Keeper(this.#keeperPort())
    return this.#keeper
  }

  #endings(ids: readonly string[]): Promise<readonly Ending[]> {
    return this.#deps.ask({ kind: 'endings', ids }) as Promise<readonly Ending[]>
  }

  /** What this job keeps is kept by the worker, under its lease. */
  #keeperPort(): KeeperPort {
    const { ask } = this.#deps
    let [storeMs, atMs] = [0, 0]
    return {
      id: this.id,
      check: (what) => {
        if (this.parked !== null) throw this.parked
        if (this.abortReason !== null) throw this.abortReason
        if (this.isOver) throw attemptOver(what, this.id)
      },
      async recall() {
        const told = (await ask({ kind: 'recall' })) as { readonly recalled: Recalled; readonly storeNowMs: number }
        storeMs = told.storeNowMs
        atMs = performance.now()
        return told.recalled
      },
      keep: async (entry) => void (await ask({ kind: 'keep', entry })),
      write: async (offset, text) => void (await ask({ kind: 'write', offset, text })),
      endings: (ids) => this.#endings(ids),
      exists: async (id) => (await ask({ kind: 'exists', id })) === true,
      cancel: async (ids) => void (await ask({ kind: 'cancelChildren', ids })),
      park: (until, delayMs) => {
        if (this.#handler.batch !== undefined) throw noWaitInBatch(this.type)
        this.parked ??= new ParkedJob(until, delayMs)
        throw this.parked
      },
      // A keeper asks for it only after it has read what the job has kept.
      storeNowMs: () => storeMs + performance.now() - atMs,
      nowMs: () => performance.now(),
    }
  }

  abort(code: ErrorCode, message: string): void {
    if (this.abortReason !== null) return
    this.abortReason = new HoldfastError(code, message, { details: { id: this.id, attempt: this.attempt } })
    this.#controller?.abort(this.abortReason)
  }

  runsIn(): boolean {
    return false
  }

  failUncaught(error: unknown): void {
    this.#deps.fail(error)
  }

  // An attempt that has ended notes nothing more, whatever its handler left running.
  #note(write: () => void): void {
    if (this.isOver) return
    write()
    this.#deps.onNoted()
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
