// Where a process can die while it sends what is in an outbox: before and after each thing it does.

import { Database } from '../../src/stores/postgres/database.js'
import type { RedisStore } from '../../src/stores/redis/index.js'

/** In the order in which they come. `sent`: the call is on its way and not answered. */
export const STEPS = [
  'taken',
  'sent',
  'answered',
  'checked',
  'marked',
  'committed',
  'completion taken',
  'completion answered',
  'completion checked',
  'completion marked',
  'completion committed',
] as const

export type Step = (typeof STEPS)[number]

/** Whether a transaction of upkeep is open. */
let isInTransaction = false

/** What has been sent in the transaction that is open: null outside of one, or when it sends nothing. */
type Sending = 'job' | 'completion' | null

/** The store as the outbox sees it, and its transactions: `reach` is called at each step. */
export function withSteps(store: RedisStore, reach: (step: Step) => void): RedisStore {
  let sending: Sending = null
  const reachIn = (step: 'taken' | 'answered' | 'checked' | 'marked' | 'committed') => {
    if (sending !== null) reach(sending === 'job' ? step : `completion ${step}`)
  }
  watchTransactions({
    begun: () => {
      sending = null
    },
    marked: () => reachIn('marked'),
    committed: () => reachIn('committed'),
  })
  return {
    ...store,
    async enqueue(jobs, request) {
      sending = 'job'
      reach('taken')
      const call = store.enqueue(jobs, request)
      setImmediate(() => reach('sent'))
      const answers = await call
      reach('answered')
      return answers
    },
    async settle(jobs, request = {}) {
      // Workers settle too: only that of the outbox is inside a transaction of upkeep.
      if (!isInTransaction) return store.settle(jobs, request)
      sending = 'completion'
      reach('completion taken')
      const answers = await store.settle(jobs, request)
      reach('completion answered')
      return answers
    },
    async epochOf(part) {
      const epoch = await store.epochOf(part)
      if (isInTransaction) reachIn('checked')
      return epoch
    },
  }
}

interface Watch {
  begun(): void
  marked(): void
  committed(): void
}

function watchTransactions({ begun, marked, committed }: Watch): void {
  const { transaction } = Database.prototype
  Database.prototype.transaction = async function watched(purpose, work) {
    if (purpose !== 'upkeep') return transaction.call(this, purpose, work) as ReturnType<typeof work>
    const result = await transaction.call(this, purpose, async (send) => {
      begun()
      isInTransaction = true
      try {
        const done = await work(send)
        marked()
        return done
      } finally {
        isInTransaction = false
      }
    })
    committed()
    return result as Awaited<ReturnType<typeof work>>
  }
}
