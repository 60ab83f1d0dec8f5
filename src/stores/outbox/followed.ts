// How jobs end that were last seen in the outbox: one that was not created ends as the job that has its key, and one that will never be sent
// was cancelled. ◄── store.ts

import type { Ending } from '../../core/views.js'
import type { Database } from '../postgres/database.js'
import { findRows } from './rows.js'

/** The oldest are forgotten first. A call that waits for one of those ends by its own time limit. */
const FOLLOWED_MAX = 10_000
/** Calls that wait ask often. What they ask is not looked up in PostgreSQL as often as that. */
const LOOK_MS = 250

export class Followed {
  readonly #db: Database
  /** Ids that were in the outbox when they were last seen. */
  readonly #ids = new Set<string>()
  #lookedMs = Number.NEGATIVE_INFINITY

  constructor(db: Database) {
    this.#db = db
  }

  add(id: string): void {
    if (this.#ids.size >= FOLLOWED_MAX) this.#ids.delete(this.#ids.values().next().value!)
    this.#ids.add(id)
  }

  /** The endings of those of `ids` that the store did not know, and that will not come there any more. */
  async endings(
    ids: readonly string[],
    found: readonly Ending[],
    endingsOf: (ids: readonly string[]) => Promise<readonly Ending[]>,
  ): Promise<readonly Ending[]> {
    for (const { id } of found) this.#ids.delete(id)
    const asked = ids.filter((id) => this.#ids.has(id))
    const nowMs = performance.now()
    if (asked.length === 0 || nowMs - this.#lookedMs < LOOK_MS) return []
    this.#lookedMs = nowMs
    const rows = (await findRows(this.#db, asked)).filter(({ outbox }) => outbox.outcome !== 'waiting')
    const holders = rows.flatMap(({ outbox: { holder } }) => (holder === null ? [] : [holder]))
    const ended = new Map(
      (holders.length === 0 ? [] : await endingsOf([...new Set(holders)])).map((ending) => [ending.id, ending]),
    )
    return rows.flatMap(({ job: { id }, outbox: { holder } }): Ending[] => {
      if (holder === null) return [{ id, state: 'cancelled', result: null, reason: null, error: null }]
      const ending = ended.get(holder)
      return ending === undefined ? [] : [{ ...ending, id }]
    })
  }
}
