// A cap on connections: a few lanes that all purposes share. A statement takes a lane that nothing else uses, brings the limits of its
// purpose along, and gives the lane back. A slow statement can delay others then, which is the price of the cap.

import { HoldfastError } from '../../core/errors.js'
import type { Query } from './exchange.js'
import type { Lane } from './lane.js'
import type { SessionSettings } from './session.js'
import type { Row } from './statement.js'
import type { StatementLane } from './statement-lane.js'

/** How long a call waits for a lane. As long as for an answer: both are the store's delay to a caller. */
const WAIT_MS = 10_000

interface Waiter {
  readonly take: (lane: Lane) => void
  readonly timer: NodeJS.Timeout
}

/** The lanes of one store. */
export class SharedLanes {
  readonly #lanes: readonly Lane[]
  readonly #free: Lane[]
  readonly #waiting: Waiter[] = []
  readonly #users = new Set<unknown>()

  constructor(lanes: readonly Lane[]) {
    this.#lanes = lanes
    this.#free = [...lanes]
  }

  /** A lane for one purpose, with settings of its own for each statement. */
  lane(purpose: string, session: SessionSettings = {}): StatementLane {
    const user = new SharedLane(this, purpose, session)
    this.#users.add(user)
    return user
  }

  /** Does something with a lane that nothing else uses meanwhile. Calls get lanes in the order in which they come. */
  async use<T>(purpose: string, work: (lane: Lane) => Promise<T>): Promise<T> {
    const lane = this.#free.pop() ?? (await this.#wait(purpose))
    try {
      return await work(lane)
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free.push(lane)
      else {
        clearTimeout(next.timer)
        next.take(lane)
      }
    }
  }

  #wait(purpose: string): Promise<Lane> {
    return new Promise((take, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
        reject(tooFew(this.#lanes.length, purpose))
      }, WAIT_MS)
      const waiter: Waiter = { take, timer }
      this.#waiting.push(waiter)
    })
  }

  /** Ends connections that nothing uses. */
  hangUp(): void {
    for (const lane of this.#free) lane.hangUp()
  }

  /** Closes the lanes with the last of their users. */
  async leave(user: unknown): Promise<void> {
    if (!this.#users.delete(user) || this.#users.size > 0) return
    await Promise.all(this.#lanes.map((lane) => lane.close()))
  }
}

class SharedLane implements StatementLane {
  readonly #lanes: SharedLanes
  readonly #purpose: string
  readonly #limits: Query
  /** The lane that runs a statement of this purpose now. */
  #current: Lane | null = null

  constructor(lanes: SharedLanes, purpose: string, session: SessionSettings) {
    this.#lanes = lanes
    this.#purpose = purpose
    const settings = Object.entries({ lock_timeout: '0', statement_timeout: '5min', ...session })
    const text = settings.map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`).join(', ')
    this.#limits = { name: '', text: `SELECT ${text}`, values: [] }
  }

  async query(query: Query, deadlineMs: number): Promise<Row[]> {
    return (await this.queryTogether([query], deadlineMs))[0]!
  }

  queryTogether(queries: readonly Query[], deadlineMs: number): ReturnType<Lane['queryTogether']> {
    return this.#use(async (lane) => {
      // A script, such as a migration, may not be part of a transaction.
      if (queries.every(({ name, values }) => name === '' && values.length === 0)) {
        return lane.queryTogether(queries, deadlineMs)
      }
      return (await lane.queryTogether([this.#limits, ...queries], deadlineMs)).slice(1)
    })
  }

  transaction: StatementLane['transaction'] = (work, deadlineMs) =>
    this.#use((lane) =>
      lane.transaction(async (send) => {
        await send(this.#limits)
        return work(send)
      }, deadlineMs),
    )

  async #use<T>(work: (lane: Lane) => Promise<T>): Promise<T> {
    return this.#lanes.use(this.#purpose, async (lane) => {
      this.#current = lane
      try {
        return await work(lane)
      } finally {
        if (this.#current === lane) this.#current = null
      }
    })
  }

  hangUp(): void {
    this.#lanes.hangUp()
  }

  renew(): void {
    this.#current?.renew()
  }

  async cancelRunning(): Promise<void> {
    await this.#current?.cancelRunning()
  }

  close(): Promise<void> {
    return this.#lanes.leave(this)
  }
}

function tooFew(lanes: number, purpose: string): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `none of the ${lanes} connections that the cap leaves for statements became free within ${WAIT_MS} ms to ${purpose}; raise connections, or look for what is slow; the call is safe to repeat`,
    { retryable: true },
  )
}
