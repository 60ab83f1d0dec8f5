// The jobs of one child: each read, checked and run as in a worker of one process. How it ended goes back to the host, which decides.

import type { Outcome } from '../core/decide.js'
import type { Handler, JobDefinition } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import { encodeError, encodeResult } from '../core/json.js'
import { checkPayload, upgradePayload } from '../core/payload.js'
import { callWithJob } from '../worker/current-job.js'
import { classifyThrown, type ParkedJob } from '../worker/outcome.js'
import { Asks } from './asks.js'
import { ChildContext } from './child-context.js'
import type { FromChild, SentEnd, SentJob, SentParked, ToChild } from './protocol.js'

const NOTES_MS = 100
const NEWER_VERSION_DELAY_MS = 10_000

/** Runs what the host sends. */
export class ChildRun {
  readonly #handlers: ReadonlyMap<string, Handler>
  readonly #send: (message: FromChild) => void
  readonly #contexts = new Map<number, ChildContext>()
  readonly #asks: Asks
  #ends: SentEnd[] = []
  #noted = new Set<number>()

  constructor(handlers: ReadonlyMap<string, Handler>, send: (message: FromChild) => void) {
    this.#handlers = handlers
    this.#send = send
    this.#asks = new Asks(send)
  }

  /** How many handlers run. */
  get inHand(): number {
    return this.#contexts.size
  }

  receive(message: ToChild): void {
    switch (message.kind) {
      case 'jobs':
        // Before the first handler runs: it may never come back.
        this.#send({ kind: 'began', seq: message.jobs[message.jobs.length - 1]!.seq })
        for (const job of message.jobs) void this.#run(job)
        return
      case 'abort':
        this.#contexts.get(message.seq)?.abort(message.code, message.message)
        return
      case 'query':
        void this.#asks.query(message)
        return
      case 'told':
        this.#asks.told(message)
    }
  }

  async #run(job: SentJob): Promise<void> {
    const handler = this.#handlers.get(job.type)! as Handler & { definition: JobDefinition }
    const { run, definition } = handler
    const context = new ChildContext(job, handler, {
      onNoted: () => this.#noteSoon(job.seq),
      sendNotes: () => this.#sendNotes(job.seq),
      ask: (what, tx) => this.#asks.ask(job.seq, what, tx),
      fail: (thrown) => this.#threw(job.seq, thrown, definition),
    })
    this.#contexts.set(job.seq, context)
    try {
      const read = await readPayload(job, definition)
      if ('outcome' in read) {
        this.#end(job.seq, { result: null, outcome: read.outcome, error: read.error, isControl: true })
        return
      }
      // Told to stop while an asynchronous schema was at work: the handler never sees it.
      if (context.abortReason !== null) throw context.abortReason
      const value = await callWithJob(run, read.payload, context)
      // The job leaves its slot, also when its handler caught what told it to.
      if (context.parked !== null) throw context.parked
      this.#end(job.seq, { result: encodeResult(value), outcome: null, error: null, isControl: false })
    } catch (thrown) {
      this.#threw(job.seq, thrown, definition)
    }
  }

  #threw(seq: number, thrown: unknown, definition: JobDefinition): void {
    const parked = this.#contexts.get(seq)?.parked ?? null
    this.#end(seq, { result: null, ...classifyThrown(parked ?? thrown, definition), parked: sentParked(parked) })
  }

  #end(seq: number, end: Omit<SentEnd, 'seq'>): void {
    const context = this.#contexts.get(seq)
    if (context === undefined || context.isWriting(() => this.#end(seq, end))) return
    this.#sendNotes(seq)
    context.isOver = true
    this.#contexts.delete(seq)
    this.#ends.push({ seq, ...end, spent: context.spentCost })
    // Those that end in the same turn go together.
    if (this.#ends.length === 1) setImmediate(() => this.#send({ kind: 'ended', ends: this.#ends.splice(0) }))
  }

  #noteSoon(seq: number): void {
    if (this.#noted.size === 0) {
      setTimeout(() => {
        for (const noted of [...this.#noted]) this.#sendNotes(noted)
      }, NOTES_MS)
    }
    this.#noted.add(seq)
  }

  #sendNotes(seq: number): void {
    if (!this.#noted.delete(seq)) return
    const note = this.#contexts.get(seq)?.notes.take({ id: '', fence: 0, queue: '' }) ?? null
    if (note === null) return
    this.#send({ kind: 'notes', seq, progress: note.progress, logs: note.logs.map(({ text }) => text) })
  }
}

function sentParked(parked: ParkedJob | null): SentParked | null {
  return parked === null ? null : { until: parked.until, delayMs: parked.delayMs }
}

type Read =
  | { readonly payload: unknown }
  | { readonly outcome: Outcome; readonly error: ReturnType<typeof encodeError> | null }

/** The payload for the handler, or why the job does not run. What a schema throws is passed on: it says nothing about the payload. */
function readPayload(job: SentJob, definition: JobDefinition): Read | Promise<Read> {
  if (job.version > definition.version) {
    return { outcome: { kind: 'released', delayMs: NEWER_VERSION_DELAY_MS }, error: null }
  }
  let payload: unknown
  try {
    payload = JSON.parse(job.payload)
    if (job.version < definition.version) payload = upgradePayload(definition, job.version, payload)
  } catch (error) {
    return { outcome: { kind: 'invalid' }, error: encodeError(error) }
  }
  if (definition.schema === null) return { payload }
  return checked(job, definition, payload)
}

async function checked({ type }: SentJob, definition: JobDefinition, payload: unknown): Promise<Read> {
  const answer = await checkPayload(definition, payload)
  if ('value' in answer) return { payload: answer.value }
  const error = new HoldfastError('invalid_payload', `the payload of "${type}" does not fit: ${answer.problem}`)
  return { outcome: { kind: 'invalid' }, error: encodeError(error) }
}
