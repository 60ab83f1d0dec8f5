// What handlers left outside the store, and each job's final state, which the store tells through its contract.

import { type JobPage, type OperatorStore, PAGE_MAX } from '../../../src/core/operator-store.js'
import type { StoreEvent } from '../../history/events.js'
import type { RedisServer } from '../../servers/redis.js'
import { pollUntil } from '../poll.js'
import { ask } from './ask.js'
import { EFFECTS } from './effects.js'

const PAGE = 5_000

/** Every effect. It is placed by the time of the server that has it, which is the same machine's. */
export async function readEffects(server: RedisServer): Promise<StoreEvent[]> {
  const events: StoreEvent[] = []
  let from = '-'
  for (;;) {
    const found = (await ask(server, ['XRANGE', EFFECTS, from, '+', 'COUNT', PAGE])) as [string, string[]][]
    for (const [id, [, job, , fence, , attempt]] of found) {
      const at = Number(id.split('-')[0])
      const own = { ev: 'effect', order: (at + 1) * 1_000, at, inTransaction: false } as const
      events.push({ ...own, job: job!, fence: Number(fence), attempt: Number(attempt) })
    }
    if (found.length < PAGE) return events
    from = `(${found[found.length - 1]![0]}`
  }
}

/** Each job's state now, page by page. */
export async function* readFinal(store: Pick<OperatorStore, 'list'>): AsyncGenerator<StoreEvent> {
  let before: string | null = null
  do {
    const at: string | null = before
    const page: JobPage = await pollUntil(() => store.list({ filter: {}, limit: PAGE_MAX, before: at }))
    for (const { id, state, attempt, reason } of page.jobs) {
      yield { ev: 'final', job: id, key: null, state, attempts: attempt, reason }
    }
    before = page.next
  } while (before !== null)
}
