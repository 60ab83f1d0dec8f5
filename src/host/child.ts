// One child as its host sees it: the calls it has in hand, what is on its way to it, and what becomes of both when it ends.

import type { Outcome } from '../core/decide.js'
import type { Isolate } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { HoldfastEvent } from '../core/events.js'
import type { Queryable } from '../core/job-store.js'
import type { StoredError } from '../core/json.js'
import type { Ports } from '../core/ports.js'
import type { HeldJob } from '../worker/held-job.js'
import { type RemoteContext, RemoteEnd } from '../worker/isolation.js'
import { ParkedJob } from '../worker/outcome.js'
import { answer } from './answers.js'
import { type Channel, type ChannelEnd, openChannel } from './channel.js'
import type { HostSettings } from './options.js'
import {
  type FromChild,
  MEMORY_SIGNAL,
  readError,
  type SentEnd,
  type SentError,
  type SentTx,
  sendError,
} from './protocol.js'

// A pipe takes any number of bytes and keeps what the child has not read in this process: beyond this no more is sent until it reads.
const UNREAD_BYTES_MAX = 4 * 1024 * 1024
// The child reports every second. Twice that and a bit: its event loop stands still.
const SILENT_MS = 2_500
// A child that turns reads within a few milliseconds. One that has not for this long computes: what it gets now would wait for the end of that.
const READ_MS = 50
// The same, of a child that has read all it got: its sign of life is overdue.
const QUIET_MS = 1_500
// After this many signs of life, one each second, without reading what it was sent it never will: a handler has removed the listeners of its process.
const UNREAD_SIGNS_MAX = 10

export type Why = Extract<HoldfastEvent, { name: 'child.ended' }>['why']

/** One handler that runs in a child, or waits for one. */
export interface Call {
  readonly seq: number
  readonly held: HeldJob
  readonly context: RemoteContext
  /** When it was asked for; monotonic. */
  readonly sinceMs: number
  readonly end: (end: RemoteEnd) => void
  /** Called when its handler starts after a wait. */
  readonly onLateStart: () => void
  /** True while it waits, for a child or in one that computes: that is no part of its own time. */
  isLate: boolean
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
  /** Fires when it has ended. */
  readonly #gone = new AbortController()
  #outbox: Call[] = []
  #unread: { readonly call: Call; readonly bytes: number; readonly sentMs: number }[] = []
  #unreadBytes = 0
  /** How many signs of life it has sent since it last read a call, or was sent one after that. */
  #signsUnread = 0
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
    if (this.calls.size >= this.#deps.settings.jobsPerChild || this.#unreadBytes >= UNREAD_BYTES_MAX) return false
    return !this.isBehind(READ_MS) && this.silentMs < QUIET_MS
  }

  /** Whether it has left a call unread for so long. */
  isBehind(ms: number): boolean {
    return this.#unread.length > 0 && this.#deps.ports.clock.monotonic() - this.#unread[0]!.sentMs > ms
  }

  /** How long it has sent nothing, not even its sign of life. */
  get silentMs(): number {
    return this.#deps.ports.clock.monotonic() - this.#heardMs
  }

  /** Stops the time of calls that it has had for so long without reading them: it runs from when their handlers start. */
  stopUnreadClocks(ms: number): void {
    if (!this.isBehind(ms)) return
    for (const { call } of this.#unread) pauseClock(call)
  }

  /** Whether a job in it was lost together with its process before. */
  get hasSuspect(): boolean {
    for (const { held } of this.calls.values()) if (held.crashes > 0) return true
    return false
  }

  /** Sends a call, together with the others of this moment. */
  add(call: Call): void {
    call.child = this
    this.calls.set(call.seq, call)
    const bytes = call.held.job.payload.length
    if (this.#unread.length === 0) this.#signsUnread = 0
    this.#unread.push({ call, bytes, sentMs: this.#deps.ports.clock.monotonic() })
    this.#unreadBytes += bytes
    this.#outbox.push(call)
    if (this.#outbox.length === 1) queueMicrotask(() => this.#flush())
  }

  #flush(): void {
    const jobs = this.#outbox.map(({ seq, held: { job, limits } }) => {
      const { id, type, queue, payload, version, attempt, fence, createdAtMs, tags, trace, origin } = job
      const { maxAttempts } = limits
      const group = job.flow?.group ?? null
      return {
        seq,
        id,
        type,
        queue,
        payload,
        version,
        attempt,
        maxAttempts,
        fence,
        createdAtMs,
        tags,
        trace,
        group,
        origin,
      }
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
    this.#wasTurning ||= this.silentMs < SILENT_MS
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
    const wasQuiet = this.silentMs >= QUIET_MS
    this.#heardMs = this.#deps.ports.clock.monotonic()
    try {
      this.#take(message)
    } catch (error) {
      // Only code of a handler sends what this cannot read. It is the child's end, not that of this process.
      this.failure = error as Error
      this.kill('exit')
    }
    if (wasQuiet && this.isReady) this.#deps.onRoom(this)
  }

  #take(message: FromChild): void {
    switch (message.kind) {
      case 'ready':
        this.#ready(message)
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
      case 'ask':
        void this.#answer(message)
        return
      case 'answer':
        this.#answered(message)
        return
      case 'alive':
        this.rssBytes = message.rssBytes
        this.#lookAtUnread()
        return
    }
  }

  /** Ends a child whose event loop turns, and which does not read. The time of its unread calls stands still, so no timeout would end them. */
  #lookAtUnread(): void {
    if (this.#unread.length === 0 || ++this.#signsUnread < UNREAD_SIGNS_MAX) return
    this.failure = new Error('the child reads no jobs: a handler has removed the listeners of its process')
    this.#wasTurning = true
    this.kill('stuck')
  }

  #ready(loaded: Extract<FromChild, { kind: 'ready' }>): void {
    const problem = this.#problemOf(loaded)
    if (problem !== null) {
      this.failure = new HoldfastError('module_failed', problem)
      this.kill('load')
      return
    }
    this.isReady = true
    this.#deps.onReady(this)
  }

  /** Why a module that loads cannot serve. */
  #problemOf({ types, hasMiddleware }: Extract<FromChild, { kind: 'ready' }>): string | null {
    const { settings, isolate } = this.#deps
    const { href } = settings.module
    const missing = [...settings.isolated].find(([type, kind]) => kind === isolate && !types.includes(type))
    if (missing !== undefined) return `${href} has no handler for "${missing[0]}"`
    if (hasMiddleware || !settings.hasRunMiddleware) return null
    return `it exports no middleware, and what use({ run }) was given is a function of the worker's process, which cannot be sent to a child: export the same from ${href}, as in export const middleware = [{ run: async (ctx, next) => next() }], or an empty list where none is wanted`
  }

  #began(seq: number): void {
    let isRoomNew = this.isBehind(READ_MS)
    while (this.#unread.length > 0 && this.#unread[0]!.call.seq <= seq) {
      const { call, bytes } = this.#unread.shift()!
      this.#signsUnread = 0
      isRoomNew ||= this.#unreadBytes >= UNREAD_BYTES_MAX
      this.#unreadBytes -= bytes
      call.hasBegun = true
      if (!call.isLate) continue
      call.isLate = false
      call.onLateStart()
    }
    if (isRoomNew) this.#deps.onRoom(this)
  }

  #callEnded({ seq, result, spent = null, parked = null, outcome, ...rest }: SentEnd): void {
    const call = this.calls.get(seq)
    if (call === undefined) return
    if (parked !== null) call.held.parked = new ParkedJob(parked.until, parked.delayMs)
    this.jobsDone++
    this.#drop(call)
    if (spent !== null) call.context.spent(spent)
    call.end(new RemoteEnd({ result, verdict: outcome === null ? null : { outcome, ...rest } }))
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

  /** Does what a handler asks for. Of a transaction that it has open in the child each statement goes there and back. */
  async #answer({ ask, seq, what, tx }: Extract<FromChild, { kind: 'ask' }>): Promise<void> {
    const tell = (value: unknown, error: SentError | null) => this.#channel.send({ kind: 'told', ask, value, error })
    try {
      const context = this.calls.get(seq)?.context
      if (context === undefined)
        throw new HoldfastError('lease_lost', 'the job no longer belongs to this run: roll the transaction back')
      const scope = { context, tx: tx === null ? undefined : this.#txOf(ask, tx), gone: this.#gone.signal }
      tell(await answer(what, scope), null)
    } catch (thrown) {
      // Also where the answer is no plain value: nothing that a handler asks for may end this process.
      tell(null, sendError(thrown))
    }
  }

  #txOf(ask: number, { isPool, status }: SentTx): Queryable {
    return {
      query: (text: string, values: unknown[]) => this.#query(ask, text, values),
      ...(status === null ? {} : { getTransactionStatus: () => status }),
      ...(isPool ? { connect: () => {}, totalCount: 0, idleCount: 0 } : {}),
    }
  }

  #query(ask: number, text: string, values: unknown[]): Promise<{ rows: unknown[] }> {
    if (this.isEnded) return Promise.reject(childGone(this))
    const query = ++this.#nextQuery
    return new Promise((resolve, reject) => {
      this.#queries.set(query, { resolve, reject })
      this.#channel.send({ kind: 'query', query, ask, text, values })
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
    this.#gone.abort(childGone(this))
    // First what becomes of the child, then its calls: they may start others.
    if (this.isReady && this.#why === null && endedByMemory(end, this.#deps.settings)) this.#why = 'memory'
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

/** Takes the time of a call away until its handler starts. One that was told to stop keeps its deadline: that is its grace. */
export function pauseClock(call: Call): void {
  if (call.isLate || call.held.abortReason !== null) return
  call.isLate = true
  call.held.deadlineMs = Number.POSITIVE_INFINITY
}

// V8 aborts a process whose heap is full, and ends a thread with an error of this code. An abort() of other code looks the same; the message
// with the job has the signal.
function endedByMemory({ signal, error }: ChannelEnd, { memoryBytes }: HostSettings): boolean {
  if (memoryBytes === null) return false
  const code = (error as { code?: unknown } | null)?.code
  return signal === MEMORY_SIGNAL || signal === 'SIGABRT' || code === 'ERR_WORKER_OUT_OF_MEMORY'
}
