// Many jobs in one call and one transaction. ◄── client.ts

import { checkKeys } from '../core/check.js'
import { Contact } from '../core/contact.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError, isHoldfastError, show } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Enqueued, NewJob } from '../core/job.js'
import { BATCH_MAX, type JobStore, type Queryable } from '../core/job-store.js'
import { type Ports, sleep } from '../core/ports.js'
import type { LocalWorkers } from '../core/reserve.js'
import { aborted, gaveUp } from './enqueue-errors.js'
import { KeyedGroupCommit, type KeyedGroupCommitOptions } from './keyed-group-commit.js'
import {
  checkSignal,
  checkTx,
  type EnqueueOptions,
  type EnqueueResult,
  type JobTarget,
  type Preparation,
  prepareJob,
} from './prepare.js'

/** The most bytes of payload one call takes. */
const MANY_BYTES_MAX = 64 * 1024 * 1024

/** Options for the many jobs of one definition: an idempotency key names one job and has no place here. */
export type EnqueueManyOptions = Omit<EnqueueOptions, 'idempotencyKey'>

/** Options for a mixed call as a whole. */
export type EnqueueTogetherOptions = Pick<EnqueueOptions, 'tx' | 'signal'>

/** The options of one job in a mixed call: `tx` and `signal` belong to the call as a whole. */
export type EntryOptions = Omit<EnqueueOptions, 'tx' | 'signal'>

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
export interface Many {
  readonly jobs: readonly NewJob[]
  readonly tx: Queryable | undefined
  readonly signal: AbortSignal | undefined
}

/** Checks and serialises the many of one definition. */
export async function prepareSame(
  preparation: Preparation,
  target: JobTarget,
  payloads: unknown,
  options: EnqueueManyOptions | undefined,
): Promise<Many> {
  if (!Array.isArray(payloads)) {
    throw new HoldfastError('invalid_option', `enqueueMany takes an array of payloads, got ${show(payloads)}`)
  }
  if (options !== undefined && 'idempotencyKey' in options) {
    throw new HoldfastError(
      'invalid_option',
      'an idempotencyKey names one job: enqueueMany([[definition, payload, { idempotencyKey }], …]) gives each its own',
    )
  }
  checkCount(payloads.length)
  const jobs = await prepareAll(payloads.length, (index) => prepareJob(preparation, target, payloads[index], options))
  return { jobs, tx: options?.tx, signal: options?.signal }
}

/** Checks and serialises a mix. */
export async function prepareMixed(
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
  return entry as unknown as Entry
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
 * The answers in order. Raises `unknown_parent` when a job comes after one that does not exist; the others of the call
 * are written all the same (without `tx`, or once it commits), so the error's details list both.
 */
export function acceptMany(answers: readonly Enqueued[]): readonly EnqueueResult[] {
  const unknown = answers.flatMap((answer, index) =>
    'unknownParent' in answer ? [{ index, id: answer.id, parent: answer.unknownParent }] : [],
  )
  if (unknown.length === 0) return answers as readonly EnqueueResult[]
  const { index, parent } = unknown[0]!
  const others = unknown.length === 1 ? '' : ` and ${unknown.length - 1} more like it`
  throw new HoldfastError(
    'unknown_parent',
    `job ${index} of enqueueMany${others} was not enqueued: it comes after job ${parent}, which does not exist; the other ${answers.length - unknown.length} were enqueued, see details.enqueued`,
    { details: { unknown, enqueued: answers.filter((answer) => !('unknownParent' in answer)) } },
  )
}

interface ManyWriterDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
  readonly workers: LocalWorkers
}

/** Writes the jobs of one call in one transaction: those without keys immediately, those with keys in groups. */
export class ManyWriter {
  readonly #deps: ManyWriterDeps
  readonly #timeoutMs: number
  readonly #keyed: KeyedGroupCommit<readonly Enqueued[]>
  /** Calls without keys that are not answered yet. */
  readonly #inFlight = new Set<Promise<unknown>>()

  constructor(deps: ManyWriterDeps, options: KeyedGroupCommitOptions) {
    this.#deps = deps
    this.#timeoutMs = options.timeoutMs
    this.#keyed = new KeyedGroupCommit(
      { ...deps, accept: (_, answers) => answers },
      // Their number is bounded only while they wait for held keys: the caller of enqueueMany has all of its jobs in memory anyway.
      { ...options, bufferJobsMax: Number.POSITIVE_INFINITY, bufferBytesMax: Number.POSITIVE_INFINITY },
    )
  }

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
