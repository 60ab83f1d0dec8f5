// Writing jobs to a store that comes and goes: the same ids again, with growing random pauses, until the time is up.

import { Contact } from '../core/contact.js'
import { showMs } from '../core/duration.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import { type Ports, sleep } from '../core/ports.js'

/** Whether a job reached the store: `unknown` once it was sent and no answer came. */
export type Written = 'no' | 'unknown'

/** What a caller is told when the store could not be reached in time. */
export function gaveUp(jobs: readonly NewJob[], written: Written, timeoutMs: number, cause: unknown): HoldfastError {
  const fate =
    written === 'no'
      ? 'nothing was written, enqueue again'
      : 'it may or may not have been written; enqueueing again with an idempotency key is safe'
  const why = isHoldfastError(cause) ? ` (${cause.message})` : ''
  return new HoldfastError(
    'store_unavailable',
    `the store did not confirm ${name(jobs)} within ${showMs(timeoutMs)}${why}: ${fate}`,
    { retryable: true, details: { ids: ids(jobs), written }, ...(cause == null ? {} : { cause }) },
  )
}

interface RetryDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
}

/**
 * Writes jobs without keys in one transaction, again and again until the store answers; raises `store_unavailable` after
 * `timeoutMs` and `aborted` when the signal fires, also while the store owes an answer.
 */
export async function writeWithRetries(
  deps: RetryDeps,
  jobs: readonly NewJob[],
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal | undefined },
): Promise<readonly Enqueued[]> {
  if (signal?.aborted) throw aborted(jobs, 'no')
  const tries: Tries = { isOver: false, lastError: null }
  let stop = () => {}
  const ended = new Promise<never>((_, reject) => {
    const giveUp = () => reject(gaveUp(jobs, 'unknown', timeoutMs, tries.lastError))
    const timer = deps.ports.timers.after(timeoutMs, giveUp, { keepAlive: true })
    const abort = () => reject(aborted(jobs, 'unknown'))
    signal?.addEventListener('abort', abort, { once: true })
    stop = () => {
      timer.cancel()
      signal?.removeEventListener('abort', abort)
    }
  })
  try {
    return await Promise.race([write(deps, jobs, tries), ended])
  } finally {
    tries.isOver = true
    stop()
  }
}

interface Tries {
  /** True once the caller is answered. */
  isOver: boolean
  lastError: unknown
}

async function write(
  { store, ports, emit }: RetryDeps,
  jobs: readonly NewJob[],
  tries: Tries,
): Promise<readonly Enqueued[]> {
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

/** What a caller is told who fired the signal itself. */
export function aborted(jobs: readonly NewJob[], written: Written): HoldfastError {
  const fate = written === 'no' ? 'nothing was written' : 'it may or may not have been written'
  return new HoldfastError('aborted', `the enqueue of ${name(jobs)} was aborted by its caller: ${fate}`, {
    details: { ids: ids(jobs), written },
  })
}

function name(jobs: readonly NewJob[]): string {
  return jobs.length === 1 ? `job ${jobs[0]!.id}` : `${jobs.length} jobs`
}

const IDS_SHOWN_MAX = 100

function ids(jobs: readonly NewJob[]): readonly string[] {
  return jobs.slice(0, IDS_SHOWN_MAX).map((job) => job.id)
}
