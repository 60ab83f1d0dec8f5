// One child as its host sees it: the calls it has in hand, what is on its way to it, and what becomes of both when it ends.

import type { Outcome } from '../core/decide.js'
import type { Isolate, JobContext } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { HoldfastEvent } from '../core/events.js'
import type { Queryable } from '../core/job-store.js'
import type { StoredError } from '../core/json.js'
import type { Ports } from '../core/ports.js'
import type { HeldJob } from '../worker/held-job.js'
import { RemoteEnd } from '../worker/isolation.js'
import { type Channel, type ChannelEnd, openChannel } from './channel.js'
import type { HostSettings } from './options.js'
import { type FromChild, readError, type SentEnd, sendError } from './protocol.js'

// A pipe takes any number of bytes and keeps what the child has not read in this process: beyond this no more is sent until it reads.
const UNREAD_BYTES_MAX = 4 * 1024 * 1024
// The child reports every second. Twice that and a bit: its event loop stands still.
const SILENT_MS = 2_500

export type Why = Extract<HoldfastEvent, { name: 'child.ended' }>['why']

/** One handler that runs in a child, or waits for one. */
export interface Call {
  readonly seq: number
  readonly held: HeldJob
  readonly context: JobContext
  /** When it was asked for; monotonic. */
  readonly sinceMs: number
  readonly end: (end: RemoteEnd) => void
  /** Called when it is handed to a child. */
  onSent: () => void
  child: Child | null
  /** True once the child has read it: its handler may have run. */
  hasBegun: boolean
}

export interface ChildDeps {
  readonly isolate: Isolate
  readonly settings: HostSettings
  readonly ports: Ports
  readonly onReady: (child: Child) => void
  /** A call has ended, or there is room for more bytes. */
  readonly onRoom: (child: Child) => void
  readonly onEnded: (child: Child, end: ChannelEnd) => void
}

export class Child {
  readonly calls: Map<number, Call> = new Map()
  readonly startedMs: number
  /** When a call was last in hand; monotonic. */
  busyMs: number
  isReady = false
  isEnded = false
  /** How many jobs have ended in it, and what it last said about its memory. */
  jobsDone = 0
  rssBytes = 0
  failure: Error | null = null
  readonly #deps: ChildDeps
  readonly #channel: Channel
  readonly #queries = new Map<
    number,
    { resolve: (answer: { rows: unknown[] }) => void; reject: (error: Error) => void }
  >()
  #nextQuery = 0
  #outbox: Call[] = []
  #unread: { readonly seq: number; readonly bytes: number }[] = []
  #unreadBytes = 0
  #heardMs: number
  #why: Why | null = null
  /** Calls whose handlers made their host end the child, and whether its event loop turned then. */
  #stuck = new Set<Call>()
  #wasTurning = false

  constructor(deps: ChildDeps) {
    const { settings, ports } = deps
    this.#deps = deps
    this.startedMs = ports.clock.monotonic()
    this.#heardMs = this.startedMs
    this.busyMs = this.startedMs
    const isThread = deps.isolate === 'thread'
    this.#channel = openChannel(deps.isolate, {
      setup: {
        module: settings.module.href,
        // Well before another worker may claim what the child still runs.
        parent: isThread ? null : { pid: process.pid, pauseMsMax: settings.leaseMs / 2 },
        killBytes: isThread || settings.memoryBytes === null ? null : 2 * settings.memoryBytes,
      },
      memoryBytes: settings.memoryBytes,
      timers: ports.timers,
      onMessage: (message) => this.#receive(message),
      onEnd: (end) => this.#ended(end),
    })
  }

  get pid(): number | null {
    return this.#channel.pid
  }

  /** Why it ended, as far as its host knows. */
  get why(): Why {
    return this.#why ?? (this.isReady ? 'exit' : 'load')
  }

  get hasRoom(): boolean {
    if (!this.isReady || this.isEnded || this.#why !== null) return false
    return this.calls.size < this.#deps.settings.jobsPerChild && this.#unreadBytes < UNREAD_BYTES_MAX
  }

  /** Whether a job in it was lost together with its process before. */
  get hasSuspect(): boolean {
    for (const { held } of this.calls.values()) if (held.crashes > 0) return true
    return false
  }

  /** Sends a call, together with the others of this moment. */
  add(call: Call): void {
    call.child = this
    call.onSent()
    this.calls.set(call.seq, call)
    const bytes = call.held.job.payload.length
    this.#unread.push({ seq: call.seq, bytes })
    this.#unreadBytes += bytes
    this.#outbox.push(call)
    if (this.#outbox.length === 1) queueMicrotask(() => this.#flush())
  }

  #flush(): void {
    const jobs = this.#outbox.map(({ seq, held: { job, limits } }) => {
      const { id, type, queue, payload, version, attempt, fence, createdAtMs, tags, trace } = job
      const { maxAttempts } = limits
      return { seq, id, type, queue, payload, version, attempt, maxAttempts, fence, createdAtMs, tags, trace }
    })
    this.#outbox = []
    this.#channel.send({ kind: 'jobs', jobs })
  }

  abort({ seq, held }: Call): void {
    const { code, message } = held.abortReason!
    this.#channel.send({ kind: 'abort', seq, code, message })
  }

  /** Ends it because the handler of this call does not stop. */
  killStuck(call: Call): void {
    this.#stuck.add(call)
    this.#wasTurning ||= this.#deps.ports.clock.monotonic() - this.#heardMs < SILENT_MS
    this.kill('stuck')
  }

  kill(why: Why): void {
    this.#why ??= why
    this.#channel.kill()
  }

  leave(why: Why): void {
    this.#why ??= why
    this.#channel.leave()
  }

  #receive(message: FromChild): void {
    this.#heardMs = this.#deps.ports.clock.monotonic()
    switch (message.kind) {
      case 'ready':
        this.#ready(message.types)
        return
      case 'failed':
        this.failure = readError(message.error)
        return
      case 'began':
        this.#began(message.seq)
        return
      case 'ended':
        for (const end of message.ends) this.#callEnded(end)
        this.#deps.onRoom(this)
        return
      case 'notes':
        this.#note(message)
        return
      case 'complete':
        void this.#complete(message)
        return
      case 'answer':
        this.#answered(message)
        return
      case 'alive':
        this.rssBytes = message.rssBytes
        return
    }
  }

  #ready(types: readonly string[]): void {
    const { settings, isolate } = this.#deps
    const missing = [...settings.isolated].find(([type, kind]) => kind === isolate && !types.includes(type))
    if (missing !== undefined) {
      this.failure = new HoldfastError('module_failed', `${settings.module.href} has no handler for "${missing[0]}"`)
      this.kill('load')
      return
    }
    this.isReady = true
    this.#deps.onReady(this)
  }

  #began(seq: number): void {
    while (this.#unread.length > 0 && this.#unread[0]!.seq <= seq) {
      const read = this.#unread.shift()!
      this.#unreadBytes -= read.bytes
      const call = this.calls.get(read.seq)
      if (call !== undefined) call.hasBegun = true
    }
  }

  #callEnded({ seq, result, outcome, error, isControl }: SentEnd): void {
    const call = this.calls.get(seq)
    if (call === undefined) return
    this.jobsDone++
    this.#drop(call)
    call.end(new RemoteEnd({ result, verdict: outcome === null ? null : { outcome, error, isControl } }))
  }

  #drop(call: Call): void {
    this.calls.delete(call.seq)
    this.busyMs = this.#deps.ports.clock.monotonic()
  }

  #note({ seq, progress, logs }: Extract<FromChild, { kind: 'notes' }>): void {
    const context = this.calls.get(seq)?.context
    if (context === undefined) return
    if (progress !== null) context.progress(JSON.parse(progress))
    for (const text of logs) context.log(text)
  }

  /** Settles a job inside the transaction that its handler has open in the child: each statement goes there and back. */
  async #complete(message: Extract<FromChild, { kind: 'complete' }>): Promise<void> {
    const { call, seq, result, isPool, status } = message
    const tx: Queryable & Record<string, unknown> = {
      query: (text, values) => this.#query(call, text, values),
      ...(status === null ? {} : { getTransactionStatus: () => status }),
      ...(isPool ? { connect: () => {}, totalCount: 0, idleCount: 0 } : {}),
    }
    let error: unknown = null
    try {
      const context = this.calls.get(seq)?.context
      if (context === undefined)
        throw new HoldfastError('lease_lost', 'the job no longer belongs to this run: roll the transaction back')
      await context.complete(tx, result === null ? undefined : JSON.parse(result))
    } catch (thrown) {
      error = thrown
    }
    this.#channel.send({ kind: 'completed', call, error: error === null ? null : sendError(error) })
  }

  #query(call: number, text: string, values: unknown[]): Promise<{ rows: unknown[] }> {
    if (this.isEnded) return Promise.reject(childGone(this))
    const query = ++this.#nextQuery
    return new Promise((resolve, reject) => {
      this.#queries.set(query, { resolve, reject })
      this.#channel.send({ kind: 'query', query, call, text, values })
    })
  }

  #answered({ query, rows, error }: Extract<FromChild, { kind: 'answer' }>): void {
    const waiting = this.#queries.get(query)
    this.#queries.delete(query)
    if (error !== null) waiting?.reject(readError(error))
    else waiting?.resolve({ rows: rows ?? [] })
  }

  #ended(end: ChannelEnd): void {
    this.isEnded = true
    this.failure ??= end.error
    for (const { reject } of this.#queries.values()) reject(childGone(this))
    this.#queries.clear()
    // First what becomes of the child, then its calls: they may start others.
    const lost = [...this.calls.values()]
    this.#deps.onEnded(this, end)
    for (const call of lost) {
      this.#drop(call)
      call.end(new RemoteEnd({ result: null, verdict: { ...this.#verdictOf(call, end), isControl: false } }))
    }
  }

  /**
   * What the end of the child means for a job in it. Never more than is known: one that the child had not read is given back, and so are the
   * neighbours of a handler that was ended for not stopping while the event loop turned. Otherwise any of them may have been the cause, and the
   * rules for jobs that are lost with their worker hold.
   */
  #verdictOf(call: Call, end: ChannelEnd): { readonly outcome: Outcome; readonly error: StoredError | null } {
    if (!call.hasBegun) return { outcome: { kind: 'crashed', started: false }, error: null }
    if (this.#why === 'stuck' && this.#wasTurning && !this.#stuck.has(call)) {
      return { outcome: { kind: 'released', delayMs: 0 }, error: null }
    }
    const how = end.signal === null ? `code ${end.code}` : end.signal
    const what = this.#deps.isolate === 'thread' ? 'the thread' : `process ${this.pid}`
    const message = `${what} ended (${this.why}, ${how}) while it ran this job${this.failure === null ? '' : `: ${this.failure.message}`}`
    return {
      outcome: { kind: 'crashed', started: true },
      error: { name: 'HoldfastError', code: 'worker_lost', message },
    }
  }
}

function childGone({ pid }: Child): HoldfastError {
  return new HoldfastError('aborted', `the child ${pid ?? 'thread'} that held the transaction has ended`)
}
