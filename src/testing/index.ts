// What `import … from 'holdfast/testing'` gives: what users need to test their jobs without a server.

export { memoryStore } from '../stores/memory/index.js'
export { assertEnqueued, assertNotEnqueued, type EnqueuedMatch } from './assert-enqueued.js'
export type { DrainOptions } from './drain.js'
export { type ManualClock, manualClock } from './manual-clock.js'
export { seededRandom } from './seeded-random.js'
export { type TestHoldfast, type TestHoldfastOptions, testHoldfast } from './test-holdfast.js'
