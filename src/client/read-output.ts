// Reading a job's output while it is written, from any place on. ◄── operator-calls.ts

import { checkId, checkKeys, checkWhole } from '../core/check.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { KeptStore } from '../core/kept/contract.js'
import { OUTPUT_LENGTH_MAX, type OutputChunk } from '../core/kept/kept.js'
import { type Ports, sleep } from '../core/ports.js'

export interface ReadOptions {
  /** Where to go on: the `next` of the last chunk that was read. Default 0, the beginning. */
  readonly from?: number
  /** Ends the reading. */
  readonly signal?: AbortSignal
}

// A reader asks again this soon while output comes, and more and more rarely while none does.
const POLL_MS = 50
const POLL_MS_MAX = 1_000
/** How long the store may be away before a reader gets an error. */
const AWAY_MS_MAX = 30_000

/** What a reader stands on. */
interface ReadDeps {
  readonly store: () => KeptStore
  readonly ports: Ports
}

/** Checks the options now, and reads when it is iterated. */
export function readOutput(deps: ReadDeps, id: string, options: ReadOptions = {}): AsyncIterable<OutputChunk> {
  checkKeys('read', options, ['from', 'signal'])
  const from = checkWhole('from', options.from ?? 0, 0, OUTPUT_LENGTH_MAX)
  const checked = { id: checkId('id', id), from, signal: options.signal }
  return { [Symbol.asyncIterator]: () => follow(deps, checked) }
}

async function* follow(
  deps: ReadDeps,
  { id, from, signal }: { readonly id: string; readonly from: number; readonly signal: AbortSignal | undefined },
): AsyncGenerator<OutputChunk, void, undefined> {
  let [next, waitMs] = [from, POLL_MS]
  const timers = deps.ports.timers
  const isOver = () => signal?.aborted === true
  while (!isOver()) {
    const page = await readPage(deps, id, next, signal)
    if (page === null) return
    for (const chunk of page.chunks) {
      if (isOver()) return
      yield chunk
      next = chunk.next
    }
    if (page.isOver) return
    if (page.chunks.length > 0) waitMs = POLL_MS
    else {
      await sleep(timers, waitMs, signal)
      waitMs = Math.min(POLL_MS_MAX, waitMs * 1.5)
    }
  }
}

/** A page; null when the reading was ended while the store was away. */
async function readPage(
  { store, ports }: ReadDeps,
  id: string,
  from: number,
  signal: AbortSignal | undefined,
): ReturnType<KeptStore['read']> {
  const startedMs = ports.clock.monotonic()
  for (let waitMs = POLL_MS; ; waitMs = Math.min(POLL_MS_MAX, waitMs * 2)) {
    try {
      const page = await store().read({ id, from })
      if (page !== null) return page
      throw new HoldfastError('job_not_found', `there is no job ${id} to read: it never existed, or was pruned`, {
        details: { id },
      })
    } catch (error) {
      const isAway = isHoldfastError(error) && error.retryable
      if (!isAway || ports.clock.monotonic() - startedMs > AWAY_MS_MAX) throw error
      if (signal?.aborted === true) return null
      await sleep(ports.timers, waitMs, signal)
    }
  }
}
