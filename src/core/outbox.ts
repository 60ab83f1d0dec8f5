// The outbox: jobs that were written in a PostgreSQL transaction for a store on Redis, and are sent there after its commit.
// ◄── upkeep/outbox.ts · stores/outbox/store.ts

/** What one step of sending has done. */
export interface OutboxStep {
  /** Jobs and completions that the store has taken. */
  readonly sent: number
  /** False when more can be sent immediately. */
  readonly isDone: boolean
}

/** What a store with an outbox has beside the contract. */
export interface OutboxPart {
  /** Sends a bounded number of rows to the store. Any process may, at any time: a row that was sent twice changes nothing. */
  dispatch(): Promise<OutboxStep>
  /** Calls `onRows` when rows may have come. Returns the function that ends that. */
  listen(onRows: () => void): () => void
}

/** What stands about a job in the outbox. */
export interface OutboxView {
  /** `waiting`: its transaction has committed, and it is not in the store yet. `deduplicated`: another job, `holder`, had its idempotency key.
   *  `refused`: the store will never take it, and `why`. `cancelled`: somebody cancelled it before it was sent. */
  readonly outcome: 'waiting' | 'deduplicated' | 'refused' | 'cancelled'
  readonly since: Date
  /** Why it waits or was refused; null when nothing is known against it. */
  readonly why: string | null
  readonly holder: string | null
}

/** What a store with an outbox says about it. */
export interface OutboxHealth {
  /** False when PostgreSQL cannot be reached: the other facts are not known then. */
  readonly isReachable: boolean
  /** The schema of its tables. */
  readonly schema: string
  /** Jobs and completions that are committed and not sent yet. False for `isExact` when there are more than were counted. */
  readonly waiting: number
  readonly isExact: boolean
  /** How long the oldest of them has waited, in milliseconds; 0 when there are none. */
  readonly oldestMs: number
  /** Jobs that the store refused for good, of the last seven days, at most 1,000 are counted. */
  readonly refused: number
  /** How long PostgreSQL took to answer, in milliseconds. */
  readonly roundTripMs: number
}
