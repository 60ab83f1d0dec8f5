// Many jobs in one call and one transaction. ◄── client.ts

import { checkKeys } from '../core/check.js'
import { Contact } from '../core/contact.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError, isHoldfastError, show } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { enqueueRefused } from '../core/flow/refusals.js'
import type { FlowRefusal } from '../core/flow/views.js'
import type { Enqueued, NewJob } from '../core/job.js'
import { BATCH_MAX, type JobStore, type Queryable } from '../core/job-store.js'
import { type Ports, sleep } from '../core/ports.js'
import type { LocalWorkers } from '../core/reserve.js'
import type { JobTracer } from '../core/tracer.js'
import { aborted, gaveUp } from './enqueue-errors.js'
import { checkSignal, checkTx, type EnqueueOptions } from './enqueue-options.js'
import { type EnqueueReports, tracedTarget } from './enqueue-reports.js'
import { type EnqueueResult, JobHandle, type Wait } from './job-handle.js'
import { KEY_OPTIONS } from './key-options.js'
import { KeyedGroupCommit, type KeyedGroupCommitOptions } from './keyed-group-commit.js'
import { type JobTarget, type Preparation, prepareJob } from './prepare.js'
import type { StoreTime } from './store-time.js'

/** The most bytes of payload one call takes. */
const MANY_BYTES_MAX = 64 * 1024 * 1024

/** Options for the many jobs of one definition: an idempotency key names one job and has no place here. */
export type EnqueueManyOptions = Omit<EnqueueOptions, (typeof KEY_OPTIONS)[number] | 'onFull'>

/** Options for a mixed call as a whole. */
export type EnqueueTogetherOptions = Pick<EnqueueOptions, 'tx' | 'signal'>

/** The options of one job in a mixed call: `tx` and `signal` belong to the call as a whole. */
export type EntryOptions = Omit<EnqueueOptions, 'tx' | 'signal' | 'onFull'>

/** The jobs of a mixed call, each as `[definition or type, payload, options?]`, each payload of its definition's type. */
export type EnqueueEntries<Inputs extends readonly unknown[]> = {
  readonly [Index in keyof Inputs]: readonly [
    job: JobDefinition<Inputs[Index], unknown> | string,
    payload: NoInfer<Inputs[Index]>,
    options?: EntryOptions,
  ]
}

type Entry = EnqueueEntries<readonly unknown[]>[number]

/** The jobs of one call, and the transaction they go into. */
interface Many {
  readonly jobs: readonly NewJob[]
  readonly tx: Queryable | undefined
  readonly signal: AbortSignal | undefined
}

/** Checks and serialises the many of one definition. */
async function prepareSame(
  preparation: Preparation,
  target: JobTarget,
  payloads: unknown,
  options: EnqueueManyOptions | undefined,
): Promise<Many> {
  if (!Array.isArray(payloads)) {
    throw new HoldfastError('invalid_option', `enqueueMany takes an array of payloads, got ${show(payloads)}`)
  }
  const key = KEY_OPTIONS.find((name) => options !== undefined && name in options)
  if (key !== undefined) {
    throw new HoldfastError(
      'invalid_option',
      `${/^[aeiou]/.test(key) ? 'an' : 'a'} ${key} names one job: enqueueMany([[definition, payload, { ${key} }], …]) gives each its own`,
    )
  }
  checkNoWait(options)
  checkCount(payloads.length)
  const jobs = await prepareAll(payloads.length, (index) => prepareJob(preparation, target, payloads[index], options))
  return { jobs, tx: options?.tx, signal: options?.signal }
}

/** Checks and serialises a mix. */
async function prepareMixed(
  preparation: Preparation,
  entries: readonly Entry[],
  options: EnqueueTogetherOptions = {},
): Promise<Many> {
  checkKeys('enqueueMany', options, ['tx', 'signal'])
  checkTx(options.tx)
  checkSignal(options.signal)
  checkCount(entries.length)
  const jobs = await prepareAll(entries.length, (index) => {
    const [target, payload, own] = checkEntry(entries[index])
    return prepareJob(preparation, target, payload, own)
  })
  return { jobs, tx: options.tx, signal: options.signal }
}

function checkEntry(entry: unknown): Entry {
  if (!Array.isArray(entry) || entry.length < 1 || entry.length > 3) {
    throw new HoldfastError('invalid_option', `it must be [definition, payload, options?], got ${show(entry)}`)
  }
  const own: unknown = entry[2]
  if (typeof own === 'object' && own !== null && ('tx' in own || 'signal' in own)) {
    throw new HoldfastError('invalid_option', 'tx and signal belong to the call as a whole: enqueueMany(jobs, { tx })')
  }
  checkNoWait(own)
  return entry as unknown as Entry
}

// All jobs of a call are written in one transaction: it cannot wait for room for some of them.
function checkNoWait(options: unknown): void {
  if (typeof options !== 'object' || options === null || !('onFull' in options)) return
  throw new HoldfastError('invalid_option', 'onFull is for enqueue: enqueueMany raises when a queue is full')
}

function checkCount(count: number): void {
  if (count <= BATCH_MAX) return
  throw new HoldfastError(
    'invalid_option',
    `enqueueMany takes at most ${BATCH_MAX} jobs, because one call is one transaction, got ${count}: cut them into several calls`,
    { details: { count, max: BATCH_MAX } },
  )
}

async function prepareAll(count: number, prepare: (index: number) => NewJob | Promise<NewJob>): Promise<NewJob[]> {
  const jobs: NewJob[] = []
  let bytes = 0
  for (let index = 0; index < count; index++) {
    try {
      const made = prepare(index)
      // Awaiting what is no promise would cost a turn for each of thousands.
      const job = made instanceof Promise ? await made : made
      bytes += Buffer.byteLength(job.payload)
      jobs.push(job)
    } catch (error) {
      throw atIndex(error, index)
    }
    if (bytes > MANY_BYTES_MAX) throw tooLarge(index)
  }
  return jobs
}

function atIndex(error: unknown, index: number): unknown {
  if (!isHoldfastError(error)) return error
  const { code, message, details, retryable } = error
  return new HoldfastError(code, `job ${index} of enqueueMany (nothing was enqueued): ${message}`, {
    cause: error,
    retryable,
    details: { ...details, index },
  })
}

function tooLarge(index: number): HoldfastError {
  return new HoldfastError(
    'payload_too_large',
    `the payloads of enqueueMany reach ${MANY_BYTES_MAX} bytes at job ${index}, which is the limit for one call: cut them into several calls`,
    { details: { index, bytesMax: MANY_BYTES_MAX } },
  )
}

/**
 * The answers in order. Raises what flow control refuses, or `unknown_parent` when a job comes after one that does not exist; the others of the call
 * are written all the same (without `tx`, or once it commits), so the error's details list both.
 */
function acceptMany(answers: readonly Enqueued[], wait: Wait): readonly JobHandle[] {
  const unknown = answers.flatMap((answer, index) =>
    'unknownParent' in answer ? [{ index, id: answer.id, parent: answer.unknownParent }] : [],
  )
  const refused = answers.findIndex((answer) => 'refused' in answer)
  if (refused !== -1) throw refusedMany(answers, refused)
  if (unknown.length === 0) return answers.map((answer) => new JobHandle(answer as EnqueueResult, wait))
  const { index, parent } = unknown[0]!
  const others = unknown.length === 1 ? '' : ` and ${unknown.length - 1} more like it`
  throw new HoldfastError(
    'unknown_parent',
    `job ${index} of enqueueMany${others} was not enqueued: it comes after job ${parent}, which does not exist; the other ${answers.length - unknown.length} were enqueued, see details.enqueued`,
    { details: { unknown, enqueued: answers.filter((answer) => !('unknownParent' in answer)) } },
  )
}

/** Jobs whose results are read by the output schemas of their definitions, where those have one. */
function withOutputs(
  first: JobTarget | EnqueueEntries<readonly unknown[]>,
  handles: readonly JobHandle[],
): readonly JobHandle[] {
  const isMixed = Array.isArray(first)
  if (!isMixed && !(first as JobDefinition).output) return handles
  return handles.map((handle, index) => {
    const target = (isMixed ? first[index][0] : first) as JobTarget
    return typeof target === 'object' && target.output !== null ? handle.reading(target) : handle
  })
}

function refusedMany(answers: readonly Enqueued[], index: number): HoldfastError {
  const first = answers[index] as Extract<Enqueued, { refused: FlowRefusal }>
  const { code, message, details, retryable } = enqueueRefused(first.id, first.refused)
  const enqueued = answers.filter((answer) => 'created' in answer)
  const refused = answers.flatMap((answer, at) => ('created' in answer ? [] : [{ index: at, id: answer.id }]))
  return new HoldfastError(code, `job ${index} of enqueueMany: ${message}; the others are in details.enqueued`, {
    retryable,
    details: { ...details, refused, enqueued },
  })
}

interface ManyCallsDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly workers: LocalWorkers
  readonly time: StoreTime
  readonly tracer: JobTracer | null
  readonly wait: Wait
  readonly preparation: Preparation
  readonly reports: EnqueueReports
  /** Raises `closed` once the client is closed. */
  open(): void
}

/** Writes the jobs of one call in one transaction: those without keys immediately, those with keys in groups. */
export class ManyCalls {
  readonly #deps: ManyCallsDeps
  readonly #timeoutMs: number
  readonly #keyed: KeyedGroupCommit<readonly Enqueued[]>
  /** Calls without keys that are not answered yet. */
  readonly #inFlight = new Set<Promise<unknown>>()

  constructor(deps: ManyCallsDeps, options: KeyedGroupCommitOptions) {
    this.#deps = deps
    this.#timeoutMs = options.timeoutMs
    this.#keyed = new KeyedGroupCommit(
      { ...deps, accept: (_, answers) => answers },
      // Their number is bounded only while they wait for held keys: the caller of enqueueMany has all of its jobs in memory anyway.
      { ...options, bufferJobsMax: Number.POSITIVE_INFINITY, bufferBytesMax: Number.POSITIVE_INFINITY },
    )
  }

  /** `enqueueMany` of the client. */
  async enqueue(
    first: JobTarget | EnqueueEntries<readonly unknown[]>,
    second: readonly unknown[] | EnqueueTogetherOptions | undefined,
    third: EnqueueManyOptions | undefined,
  ): Promise<readonly JobHandle[]> {
    const { tracer, preparation, open } = this.#deps
    open()
    const prepare = (own: Preparation) =>
      Array.isArray(first)
        ? prepareMixed(own, first, second as EnqueueTogetherOptions)
        : prepareSame(own, first as JobTarget, second, third)
    const send = async (own: Preparation) => withOutputs(first, await this.#enqueueAll(prepare(own)))
    if (tracer === null) return send(preparation)
    const count = Array.isArray(first) ? first.length : Array.isArray(second) ? second.length : 0
    const target = Array.isArray(first) ? null : (first as JobTarget)
    return tracer.enqueue(tracedTarget(target, count, third?.queue), (trace) => send({ ...preparation, trace }))
  }

  async #enqueueAll(prepared: Promise<Many>): Promise<readonly JobHandle[]> {
    const { ports, open, time, reports, wait } = this.#deps
    const startedMs = ports.clock.monotonic()
    const many = await prepared
    // It may have been closed meanwhile.
    open()
    if (many.jobs.length === 0) return []
    const answers = await this.write(many)
    for (const answer of answers) reports.refused(answer)
    const results = acceptMany(answers, wait)
    time.refresh()
    for (const [index, job] of many.jobs.entries()) reports.written(job, results[index]!)
    return reports.answered(many.jobs, results, startedMs)
  }

  /** Writes jobs that are prepared. */
  write({ jobs, tx, signal }: Many): Promise<readonly Enqueued[]> {
    if (signal?.aborted) return Promise.reject(aborted(jobs, 'no'))
    // The transaction is the caller's: after a failure the caller begins it again.
    if (tx !== undefined) return this.#deps.store.enqueue(jobs, { tx })
    if (jobs.some(({ idempotencyKey }) => idempotencyKey !== null)) return this.#keyed.enqueue(jobs, signal)
    const written = this.#writeInTime(jobs, signal)
    this.#inFlight.add(written)
    return written.finally(() => this.#inFlight.delete(written))
  }

  /** Resolves when every call has been answered. */
  async close(): Promise<void> {
    await this.#keyed.close()
    await Promise.allSettled(this.#inFlight)
  }

  /** Raises `store_unavailable` after the timeout and `aborted` when the signal fires, also while the store owes an answer. */
  async #writeInTime(jobs: readonly NewJob[], signal: AbortSignal | undefined): Promise<readonly Enqueued[]> {
    const tries: Tries = { isOver: false, lastError: null }
    let stop = () => {}
    const ended = new Promise<never>((_, reject) => {
      const giveUp = () => reject(gaveUp(jobs, 'unknown', this.#timeoutMs, tries.lastError))
      const timer = this.#deps.ports.timers.after(this.#timeoutMs, giveUp, { keepAlive: true })
      const abort = () => reject(aborted(jobs, 'unknown'))
      signal?.addEventListener('abort', abort, { once: true })
      stop = () => {
        timer.cancel()
        signal?.removeEventListener('abort', abort)
      }
    })
    try {
      return await Promise.race([this.#writeAgain(jobs, tries), ended])
    } finally {
      tries.isOver = true
      stop()
    }
  }

  /** Sends the same ids again, with growing random pauses, until the store answers. */
  async #writeAgain(jobs: readonly NewJob[], tries: Tries): Promise<readonly Enqueued[]> {
    const { store, ports, emit } = this.#deps
    const contact = new Contact({ ports, emit }, 'enqueue')
    const startedMs = ports.clock.monotonic()
    for (;;) {
      try {
        const answers = await store.enqueue(jobs)
        contact.found()
        emit({ name: 'job.enqueued', count: jobs.length, tookMs: ports.clock.monotonic() - startedMs })
        return answers
      } catch (error) {
        if (tries.isOver || !isHoldfastError(error) || !error.retryable) throw error
        tries.lastError = error
        await sleep(ports.timers, contact.lost(error))
        if (tries.isOver) throw error
      }
    }
  }
}

interface Tries {
  /** True once the caller is answered. */
  isOver: boolean
  lastError: unknown
}
