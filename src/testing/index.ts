// What `import … from 'holdfast/testing'` gives: what users need to test their jobs without a server.

export { type AnswerQuery, type MemoryTransaction, memoryStore } from '../stores/memory/index.js'
export { assertEnqueued, assertNotEnqueued, type EnqueuedMatch } from './assert-enqueued.js'
export type { DrainOptions } from './drain.js'
export { type ManualClock, manualClock } from './manual-clock.js'
export { holdfastMatchers, type MatcherAnswer } from './matchers.js'
export { type HandlerRun, runHandler } from './run-handler.js'
export { seededRandom } from './seeded-random.js'
export { type TestHoldfast, type TestHoldfastOptions, testHoldfast } from './test-holdfast.js'
