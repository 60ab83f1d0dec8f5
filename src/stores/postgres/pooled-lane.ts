// Statements over a pool of the user's: each takes a connection, runs as one transaction with the settings that our statements need, and
// gives the connection back as it was. Only what any pg.Pool of any version offers is used.

import type { Durability } from '../../core/durability.js'
import { HoldfastError, invalidOption, isHoldfastError } from '../../core/errors.js'
import type { UserPool } from './access-options.js'
import { requestCancel } from './cancel-request.js'
import { storeError } from './errors.js'
import type { Query } from './exchange.js'
import { type Session, type SessionSettings, sessionWith } from './session.js'
import type { Row } from './statement.js'
import type { StatementLane } from './statement-lane.js'

/** What a connection of the pool does. */
interface LentClient {
  query(query: unknown): Promise<unknown>
  release(destroy?: boolean): void
  on(event: 'error', listener: () => void): unknown
  off(event: 'error', listener: () => void): unknown
}

/** Raises `invalid_option` unless `pool` is one of pg's pools. */
export function checkPool(pool: unknown): UserPool {
  const { connect, query, totalCount, processID, _Client } = (pool ?? {}) as Record<string, unknown>
  const isClient =
    typeof connect === 'function' && (processID !== undefined || _Client !== undefined) && totalCount === undefined
  if (isClient)
    throw invalidOption('pool must be a pg.Pool, got a client: one connection cannot serve everything a store does')
  if (typeof connect === 'function' && typeof query === 'function' && typeof totalCount === 'number')
    return pool as UserPool
  throw invalidOption('pool must be a pg.Pool (with connect(), query() and totalCount)', pool)
}

interface PooledLaneOptions {
  readonly pool: UserPool
  readonly purpose: string
  readonly connectMs: number
  readonly session?: SessionSettings
  readonly durability?: Durability
}

/** Rows as the server sent them, whatever types the pool reads. */
const AS_TEXT = { getTypeParser: () => (text: unknown) => text }

export class PooledLane implements StatementLane {
  readonly #options: PooledLaneOptions
  readonly #session: Session
  readonly #running = new Set<LentClient>()
  #isClosed = false

  constructor(options: PooledLaneOptions) {
    this.#options = options
    this.#session = sessionWith(options.session ?? {}, options.durability)
  }

  async query(query: Query, deadlineMs: number): Promise<Row[]> {
    return (await this.queryTogether([query], deadlineMs))[0]!
  }

  queryTogether(queries: readonly Query[], deadlineMs: number): Promise<Row[][]> {
    // A script may hold commands that no transaction can.
    if (queries.every(({ name, values }) => name === '' && values.length === 0)) {
      return this.#lend(deadlineMs, (run) => inOrder(queries, run))
    }
    return this.transaction((send) => inOrder(queries, send), deadlineMs)
  }

  transaction<T>(work: (send: (query: Query) => Promise<Row[]>) => Promise<T>, deadlineMs: number): Promise<T> {
    return this.#lend(deadlineMs, async (run, client) => {
      let first: unknown = null
      const send = async (query: Query) => {
        try {
          return await run(query)
        } catch (error) {
          first ??= error
          // After its first failure a transaction refuses every statement.
          throw isHoldfastError(error) && error.details.sqlState === '25P02' ? first : error
        }
      }
      await run(script(this.#session.guardedBegin))
      try {
        const value = await work(send)
        const ended = (await client.query('COMMIT')) as { readonly command?: string }
        if (ended.command !== 'COMMIT') throw first ?? rolledBack(this.#options.purpose)
        return value
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      }
    })
  }

  /** Does something with a connection of the pool. One that failed, or that did not answer in time, does not go back to it. */
  async #lend<T>(
    deadlineMs: number,
    work: (run: (query: Query) => Promise<Row[]>, client: LentClient) => Promise<T>,
  ): Promise<T> {
    const { purpose } = this.#options
    if (this.#isClosed) throw new HoldfastError('closed', `the store is closed: it cannot ${purpose}`)
    const client = await this.#borrow()
    let isBroken = false
    const onError = () => {
      isBroken = true
    }
    client.on('error', onError)
    this.#running.add(client)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        isBroken = true
        reject(tooLate(purpose, deadlineMs))
      }, deadlineMs)
    })
    const run = async (query: Query) => {
      try {
        return readRows(
          await client.query({ text: query.text, values: valuesOf(query), rowMode: 'array', types: AS_TEXT }),
        )
      } catch (thrown) {
        throw storeError(purpose, thrown, isBroken)
      }
    }
    try {
      return await Promise.race([work(run, client), late])
    } catch (error) {
      if (isBroken) void requestCancel(client as never).catch(() => {})
      if (isHoldfastError(error)) throw error
      isBroken = true
      throw storeError(purpose, error, true)
    } finally {
      clearTimeout(timer)
      this.#running.delete(client)
      client.off('error', onError)
      // A connection that breaks while it goes back must not end the process.
      if (isBroken) client.on('error', () => {})
      client.release(isBroken)
    }
  }

  async #borrow(): Promise<LentClient> {
    const { pool, purpose, connectMs } = this.#options
    let timer: NodeJS.Timeout | undefined
    let isLate = false
    const lent = (pool.connect() as Promise<LentClient>).then((client) => {
      if (isLate) client.release()
      return client
    })
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        isLate = true
        reject(noneFree(pool, purpose, connectMs))
      }, connectMs)
    })
    try {
      return await Promise.race([lent, late])
    } catch (error) {
      lent.catch(() => {})
      throw isHoldfastError(error) ? error : storeError(purpose, error, true)
    } finally {
      clearTimeout(timer)
    }
  }

  /** Asks the server to end what runs there for this purpose. */
  async cancelRunning(): Promise<void> {
    await Promise.all([...this.#running].map((client) => requestCancel(client as never)))
  }

  // The connections are the pool's: it decides when they end.
  hangUp(): void {}
  renew(): void {}

  async close(): Promise<void> {
    this.#isClosed = true
  }
}

async function inOrder(queries: readonly Query[], run: (query: Query) => Promise<Row[]>): Promise<Row[][]> {
  const results: Row[][] = []
  for (const query of queries) results.push(await run(query))
  return results
}

function script(text: string): Query {
  return { name: '', text, values: [] }
}

// Without values it goes as plain text, which may be several commands.
function valuesOf({ values }: Query): unknown[] | undefined {
  if (values.length === 0) return undefined
  return values.map((value) => (typeof value === 'number' || typeof value === 'boolean' ? String(value) : value))
}

function readRows(result: unknown): Row[] {
  const last = Array.isArray(result) ? result.at(-1) : result
  return ((last as { readonly rows?: Row[] } | undefined)?.rows ?? []) as Row[]
}

function tooLate(purpose: string, deadlineMs: number): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `PostgreSQL did not answer within ${deadlineMs} ms when asked to ${purpose} over the pool; the connection was cut, the call is safe to repeat`,
    { retryable: true },
  )
}

function noneFree({ totalCount, waitingCount }: UserPool, purpose: string, connectMs: number): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `the pool gave no connection within ${connectMs} ms to ${purpose}: ${totalCount} are open and ${waitingCount} callers wait; raise its max, give back what is taken, or give connect() a URL; the call is safe to repeat`,
    { retryable: true },
  )
}

function rolledBack(purpose: string): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `PostgreSQL rolled a transaction back when asked to commit it to ${purpose}; the call is safe to repeat`,
    { retryable: true },
  )
}
