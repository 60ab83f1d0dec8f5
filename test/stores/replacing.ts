// Whether a store knows debounce and replace.

import { isHoldfastError } from '../../src/core/errors.js'
import type { Store } from '../../src/core/store.js'
import { keyed, newJob } from '../../src/testing/store-suite/samples.js'

/** Asks the store once, in a queue of its own. One that does not know it refuses the whole call. */
export async function canReplace(store: Store): Promise<boolean> {
  const job = newJob({ queue: 'replacing', ...keyed('replacing'), replace: { waitMs: 0, maxWaitMs: null } })
  try {
    await store.enqueue([job])
    return true
  } catch (error) {
    if (isHoldfastError(error, 'unsupported')) return false
    throw error
  }
}
