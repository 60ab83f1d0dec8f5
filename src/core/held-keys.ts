// Idempotency keys that a transaction which is open elsewhere is writing: nobody can say yet whether they are taken.

import { HoldfastError, isHoldfastError, show } from './errors.js'
import type { NewJob } from './job.js'

/** What an enqueue fails with when the keys of these of its jobs are held so. None of its jobs was written. `areAll` is false when
 *  nobody has looked at the keys of all the others. */
export function heldKeys(held: readonly NewJob[], areAll: boolean): HoldfastError {
  const { queue, idempotencyKey } = held[0]!
  const others = held.length === 1 ? '' : ` (and ${held.length - 1} more like it)`
  return new HoldfastError(
    'store_unavailable',
    `idempotency key ${show(idempotencyKey?.key)} in queue "${queue}" is held by a transaction that has not ended${others}; end it, and the calls that wait for the key are answered`,
    { retryable: true, details: { heldIds: held.map(({ id }) => id), areAll } },
  )
}

/** Whose keys such a failure says are held; null for any other. */
export function heldIn(error: unknown): { readonly ids: ReadonlySet<string>; readonly areAll: boolean } | null {
  if (!isHoldfastError(error, 'store_unavailable') || !Array.isArray(error.details.heldIds)) return null
  return { ids: new Set(error.details.heldIds as string[]), areAll: error.details.areAll === true }
}

/** A name for a key, different from the same key in other queues; null for a job without one. */
export function keyName({ queue, idempotencyKey }: NewJob): string | null {
  return idempotencyKey === null ? null : `${queue}\n${idempotencyKey.key}`
}
