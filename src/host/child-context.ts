// What a handler is given beside its payload when it runs in a child. It has all that a handler in the worker's own process has.

import type { Completed, JobContext } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { type ErrorCode, HoldfastError } from '../core/errors.js'
import { checkCost } from '../core/flow/resolve.js'
import type { Queryable } from '../core/job-store.js'
import type { FailableContext } from '../worker/current-job.js'
import { noConnection } from '../worker/lookup.js'
import { Notes } from '../worker/notes.js'
import { rateLimited, SnoozeJob } from '../worker/outcome.js'
import type { SentJob } from './protocol.js'

const IN_A_CHILD = 'in a child process or thread, which has no connection'

export interface ChildContextDeps {
  /** Something was noted: it is to be sent soon. */
  readonly onNoted: () => void
  readonly complete: (tx: Queryable, result: unknown) => Promise<void>
  /** The handler failed outside of its promise. */
  readonly fail: (error: unknown) => void
}

export class ChildContext implements FailableContext {
  readonly #job: SentJob
  readonly #deps: ChildContextDeps
  readonly notes: Notes = new Notes()
  isOver = false
  spentCost: number | null = null
  abortReason: HoldfastError | null = null
  #controller: AbortController | null = null

  constructor(job: SentJob, deps: ChildContextDeps) {
    this.#job = job
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
    throw noConnection('holdfast', IN_A_CHILD)
  }

  get enqueue(): JobContext['enqueue'] {
    throw noConnection('enqueue', IN_A_CHILD)
  }

  get parentResults(): JobContext['parentResults'] {
    throw noConnection('parentResults', IN_A_CHILD)
  }

  get lastProgress(): JobContext['lastProgress'] {
    throw noConnection('lastProgress', IN_A_CHILD)
  }

  get step(): JobContext['step'] {
    throw noKeeping('step')
  }

  get once(): JobContext['once'] {
    throw noKeeping('once')
  }

  get waitForChildren(): JobContext['waitForChildren'] {
    throw noKeeping('waitForChildren')
  }

  get write(): JobContext['write'] {
    throw noKeeping('write')
  }

  get waitFor(): JobContext['waitFor'] {
    throw noKeeping('waitFor')
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
    return (tx, result) => this.#deps.complete(tx, result) as Promise<Completed>
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

function noKeeping(what: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `ctx.${what} cannot be used ${IN_A_CHILD}: run handlers with steps in the worker's own process, without \`processes\` and \`isolate\``,
  )
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
