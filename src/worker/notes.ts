// Progress and log lines of running jobs: gathered in memory within bounds, written about once a second and before the
// job is settled.

import { isHoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { type JobNote, type Lease, leaseOf } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import { encodeResult, LOG_LINE_BYTES_MAX, safeText } from '../core/json.js'

const LOG_LINES_MAX = 1_000
const PROGRESS_BYTES_MAX = 16 * 1024
const WRITE_BYTES_MAX = 4 * 1024 * 1024

/** What one attempt has noted. */
export class Notes {
  #progress: string | null = null
  #logs: { readonly atMs: number; readonly text: string }[] = []
  #lines = 0

  /** Keeps the newest progress; what is too large or no JSON becomes a marker that says so. */
  progress(value: unknown): void {
    const text = encodeResult(value) ?? 'null'
    const bytes = Buffer.byteLength(text)
    this.#progress =
      bytes <= PROGRESS_BYTES_MAX
        ? text
        : JSON.stringify({ unserializable: true, why: `${bytes} bytes, the limit is ${PROGRESS_BYTES_MAX}` })
  }

  /** Keeps a line; the thousand-and-first and all after it are dropped. */
  log(text: string, atMs: number): void {
    if (this.#lines >= LOG_LINES_MAX) return
    this.#lines++
    this.#logs.push({ atMs, text: safeText(text, LOG_LINE_BYTES_MAX) })
  }

  /** Takes what has not been written yet, or null when there is nothing. */
  take(lease: Lease): JobNote | null {
    if (this.#progress === null && this.#logs.length === 0) return null
    const note = { ...leaseOf(lease), progress: this.#progress, logs: this.#logs }
    this.#progress = null
    this.#logs = []
    return note
  }

  /** Puts back what could not be written. */
  putBack(note: JobNote): void {
    this.#progress ??= note.progress
    this.#logs.unshift(...note.logs)
  }
}

/** A job whose notes may be written. */
export interface Noted extends Lease {
  readonly notes: Notes | null
}

/**
 * Writes what the jobs have noted. Raises what the store raises, after putting the notes back, when trying again may
 * help; notes the store refuses are dropped with an event, because no settlement may wait for them.
 */
export async function writeNotes(jobs: readonly Noted[], deps: { store: JobStore; emit: Emit }): Promise<void> {
  let batch: { readonly notes: Notes; readonly note: JobNote }[] = []
  let bytes = 0
  for (const job of jobs) {
    const note = job.notes?.take(job) ?? null
    if (note === null) continue
    batch.push({ notes: job.notes!, note })
    bytes += sizeOf(note)
    if (bytes < WRITE_BYTES_MAX) continue
    await write(batch, deps)
    batch = []
    bytes = 0
  }
  if (batch.length > 0) await write(batch, deps)
}

async function write(
  batch: readonly { readonly notes: Notes; readonly note: JobNote }[],
  { store, emit }: { store: JobStore; emit: Emit },
): Promise<void> {
  try {
    await store.note(batch.map(({ note }) => note))
  } catch (error) {
    if (!isHoldfastError(error) || !error.retryable) {
      emit({ name: 'store.failed', during: 'note', error: error as Error })
      return
    }
    for (const { notes, note } of batch) notes.putBack(note)
    throw error
  }
}

function sizeOf(note: JobNote): number {
  return note.logs.reduce((bytes, { text }) => bytes + text.length, note.progress?.length ?? 0)
}
