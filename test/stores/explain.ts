// Whether concurrent calls on one job can be explained: by an order of them, one after another, in which the memory store gives every
// caller the answer it was given, and in which a call that had been answered before another was made comes first.

import { isDeepStrictEqual } from 'node:util'
import type { Store } from '../../src/core/store.js'

/** A call as it was made, with what it was answered. */
export interface Recorded {
  /** For messages. */
  readonly name: string
  /** Makes the call, and keeps of the answer what any store must give. */
  readonly call: (store: Store) => Promise<unknown>
  readonly answer: unknown
  /** An answer that means the same here: a wish that was kept, and granted later. */
  readonly otherAnswer?: unknown
  /** Counted by one clock for all callers: when it was made, and when it was answered. */
  readonly madeAt: number
  readonly answeredAt: number
}

/** The state of the search: which calls are placed, in this order. */
type Order = readonly number[]

/** Finds an order that explains the calls on the jobs, or null. `openReference` opens an empty memory store. */
export async function explain(
  jobs: readonly string[],
  calls: readonly Recorded[],
  openReference: () => Store,
): Promise<Order | null> {
  const dead = new Set<string>()

  const search = async (order: Order): Promise<Order | null> => {
    if (order.length === calls.length) return order
    for (const next of candidates(calls, order)) {
      const placed = [...order, next]
      const state = await replay(jobs, calls, placed, openReference)
      if (state === null) continue
      // The same calls in another order that leads to the same state end in the same way.
      const name = `${[...placed].sort((a, b) => a - b).join(',')} ${state}`
      if (dead.has(name)) continue
      const found = await search(placed)
      if (found !== null) return found
      dead.add(name)
    }
    return null
  }
  return search([])
}

/** The calls that may come next: no other open one had been answered before they were made. */
function candidates(calls: readonly Recorded[], order: Order): number[] {
  const open = calls.map((_, index) => index).filter((index) => !order.includes(index))
  const firstAnswer = Math.min(...open.map((index) => calls[index]!.answeredAt))
  return open.filter((index) => calls[index]!.madeAt <= firstAnswer)
}

/** The jobs after the calls in this order; null when the last of them is answered differently. */
async function replay(
  jobs: readonly string[],
  calls: readonly Recorded[],
  order: Order,
  openReference: () => Store,
): Promise<string | null> {
  const store = openReference()
  let answer: unknown
  for (const index of order) answer = await calls[index]!.call(store)
  const { answer: given, otherAnswer = given } = calls[order.at(-1)!]!
  if (!isDeepStrictEqual(answer, given) && !isDeepStrictEqual(answer, otherAnswer)) return null
  // Of several jobs it matters who comes first, too.
  const standings = jobs.length > 1 ? await Promise.all(jobs.map((id) => store.standing(id))) : []
  return JSON.stringify([await Promise.all(jobs.map((id) => store.get(id))), standings])
}

/** The calls as lines, for a message. */
export function tell(calls: readonly Recorded[]): string {
  return [...calls]
    .sort((a, b) => a.madeAt - b.madeAt)
    .map(({ name, answer, madeAt, answeredAt }) => `${madeAt}–${answeredAt} ${name} → ${JSON.stringify(answer)}`)
    .join('\n')
}
