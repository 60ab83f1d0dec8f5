// One connection with one purpose. It connects when it is needed, connects again after a failure, and every query on it has a
// deadline after which the socket is destroyed: a half-open connection costs one deadline, never a hang.

import pg from 'pg'
import { HoldfastError } from '../../core/errors.js'
import { connectError, sqlStateOf, storeError } from './errors.js'
import { Exchange, type Query } from './exchange.js'
import type { Row } from './statement.js'

/** Where to connect; asked anew for each connection, because an embedded server may have moved. */
export type ConnectionSettings = pg.ClientConfig

export interface LaneOptions {
  /** Resolves with where to connect, and the start-up options beside the usual ones. */
  readonly settings: () => Promise<ConnectionSettings>
  readonly purpose: string
  readonly connectMs: number
}

// Plans must not depend on statistics: a table that was empty when a plan was made may hold millions a minute later.
// Nothing of ours is found through the search path, and nothing of others should be: a function in public whose arguments fit
// better than the server's own would be called in its place.
// A pooler that refuses start-up options gets none: they are about speed and tidiness, never about correctness.
export const START_OPTIONS =
  '-c search_path=pg_catalog,pg_temp -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan -c idle_in_transaction_session_timeout=60000 -c statement_timeout=300000'

export class Lane {
  readonly #options: LaneOptions
  #client: pg.Client | null = null
  #connecting: Promise<pg.Client> | null = null
  #turn: Promise<unknown> = Promise.resolve()
  #transactions = 0
  #isClosed = false
  #takesOptions = true
  #prepares = true

  constructor(options: LaneOptions) {
    this.#options = options
  }

  /** Runs one query; raises a HoldfastError. On an open connection it is written before this returns. */
  query(query: Query, deadlineMs: number): Promise<Row[]> {
    if (this.#transactions === 0 && this.#client !== null) return this.#send(this.#client, query, deadlineMs)
    return this.#queryWhenOpen(query, deadlineMs)
  }

  async #queryWhenOpen(query: Query, deadlineMs: number): Promise<Row[]> {
    for (;;) {
      // A query sent meanwhile would become part of the transaction.
      while (this.#transactions > 0) await this.#turn
      const client = await this.#open()
      if (this.#transactions === 0) return this.#send(client, query, deadlineMs)
    }
  }

  /** Runs several queries as one transaction, alone on the lane; rolls back when `work` raises. */
  transaction<T>(work: (send: (query: Query) => Promise<Row[]>) => Promise<T>, deadlineMs: number): Promise<T> {
    this.#transactions++
    const result = this.#turn
      .then(() => this.#transact(work, deadlineMs))
      .finally(() => {
        this.#transactions--
      })
    this.#turn = result.catch(() => {})
    return result
  }

  async #transact<T>(work: (send: (query: Query) => Promise<Row[]>) => Promise<T>, deadlineMs: number): Promise<T> {
    const client = await this.#open()
    const send = (query: Query) => this.#send(client, query, deadlineMs)
    await send({ name: '', text: 'BEGIN', values: [] })
    try {
      const value = await work(send)
      await send({ name: '', text: 'COMMIT', values: [] })
      return value
    } catch (error) {
      // When the rollback fails as well the connection is gone, and with it the transaction.
      await send({ name: '', text: 'ROLLBACK', values: [] }).catch(() => this.#drop(client))
      throw error
    }
  }

  async #send(client: pg.Client, query: Query, deadlineMs: number): Promise<Row[]> {
    let timer: NodeJS.Timeout | undefined
    const isNamed = this.#prepares && query.name !== ''
    try {
      return await new Promise<Row[]>((resolve, reject) => {
        timer = setTimeout(() => {
          reject(late(this.#options.purpose, deadlineMs))
          this.#drop(client)
        }, deadlineMs)
        const sent = isNamed ? query : { ...query, name: '' }
        client.query(new Exchange(sent, (error, rows) => (error === null ? resolve(rows) : reject(error))))
      })
    } catch (thrown) {
      if (isNamed && forgetsStatements(thrown)) {
        this.#prepares = false
        return this.#send(client, query, deadlineMs)
      }
      const error = storeError(this.#options.purpose, thrown)
      // 25006 comes from a server that was demoted: only a new connection can find the new primary.
      if (error.code === 'store_read_only' || sqlStateOf(thrown) === null) this.#drop(client)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  async #open(): Promise<pg.Client> {
    if (this.#isClosed) throw new HoldfastError('closed', `the store is closed: it cannot ${this.#options.purpose}`)
    if (this.#client !== null) return this.#client
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null
    })
    return this.#connecting
  }

  async #connect(): Promise<pg.Client> {
    try {
      const client = await this.#dial()
      if (this.#isClosed) {
        destroy(client)
        throw new HoldfastError('closed', `the store was closed while it connected to ${this.#options.purpose}`)
      }
      this.#client = client
      return client
    } catch (thrown) {
      // 08P01 and 22023 are what poolers answer to start-up options they do not know.
      const text = thrown instanceof Error ? thrown.message : ''
      if (this.#takesOptions && /startup parameter|options/i.test(text)) {
        this.#takesOptions = false
        return this.#connect()
      }
      throw connectError(await this.#where(), thrown)
    }
  }

  async #dial(): Promise<pg.Client> {
    const { options: more = '', ...settings } = await this.#options.settings()
    const client = new pg.Client({
      keepAlive: true,
      pipeline: true,
      ...settings,
      application_name: `holdfast ${this.#options.purpose}`.slice(0, 63),
      connectionTimeoutMillis: this.#options.connectMs,
      ...(this.#takesOptions ? { options: `${START_OPTIONS} ${more}` } : {}),
    })
    const forget = () => {
      if (this.#client === client) this.#client = null
    }
    // Without a listener an error between two queries would end the process.
    client.on('error', forget)
    client.on('end', forget)
    try {
      await client.connect()
    } catch (error) {
      destroy(client)
      throw error
    }
    return client
  }

  async #where(): Promise<string> {
    const { connectionString, host, port, database } = await this.#options.settings()
    if (connectionString === undefined) return `${host}:${port}/${database}`
    const url = new URL(connectionString)
    return `${url.hostname || 'localhost'}:${url.port || 5432}${url.pathname}`
  }

  #drop(client: pg.Client): void {
    if (this.#client === client) this.#client = null
    destroy(client)
  }

  /** The connection, for listening. */
  async connected(): Promise<pg.Client> {
    return this.#open()
  }

  /** Ends the connection, politely for a second and then at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#connecting?.catch(() => {})
    const client = this.#client
    this.#client = null
    if (client === null) return
    let timer: NodeJS.Timeout | undefined
    const impatience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, 1_000)
    })
    await Promise.race([client.end().catch(() => {}), impatience])
    clearTimeout(timer)
    destroy(client)
  }
}

// A pooler that hands out another server connection for each transaction does not know what was prepared before (26000) or
// has it already (42P05). From then on the lane sends whole statements; those under way under a name are sent again.
function forgetsStatements(thrown: unknown): boolean {
  const state = sqlStateOf(thrown)
  return state === '26000' || state === '42P05'
}

function late(purpose: string, deadlineMs: number): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `PostgreSQL did not answer within ${deadlineMs} ms when asked to ${purpose}; the connection was cut, the call is safe to repeat`,
    { retryable: true },
  )
}

function destroy(client: pg.Client): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}
