// The memory store: the store contract in its plainest executable form. For tests, simulation and trying things out;
// what it knows ends with its process. One file holds one operation, named as in the other stores.

import type { Clock } from '../../core/ports.js'
import type { Store } from '../../core/store.js'
import { newMemory } from './memory.js'
import { storeOver } from './store.js'

export { beginIn } from './store.js'
export type { AnswerQuery, MemoryTransaction } from './transaction.js'

export interface MemoryStoreOptions {
  /** Where the store's time comes from. Default the system's clock; tests pass a manual one. */
  readonly clock?: Pick<Clock, 'now'>
}

/** Opens a store that lives in this process. It takes part in its own transactions alone, which `testHoldfast` begins: any other `tx`
 *  raises `unsupported`. */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  return storeOver(newMemory(), options.clock ?? { now: Date.now })
}
