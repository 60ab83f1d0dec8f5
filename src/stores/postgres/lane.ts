// One connection with one purpose. It connects when it is needed, connects again after a failure, and every query on it has a
// deadline after which the server is asked to end it and the socket is destroyed: a half-open connection costs one deadline, never a
// hang.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Durability } from '../../core/durability.js'
import { HoldfastError, isHoldfastError } from '../../core/errors.js'
import { requestCancel } from './cancel-request.js'
import { connectError, refusesOptions, sqlStateOf, storeError } from './errors.js'
import { Exchange, type Failure, type Query } from './exchange.js'
import { IDENTITY, isOtherTimeline, onTimeline, readIdentity, type ServerIdentity } from './identity.js'
import { type HeldUntil, LaneGroup } from './lane-group.js'
import { POOL_TOO_SMALL } from './pooler.js'
import { readFacts, type Session, type SessionFacts, type SessionSettings, sessionWith } from './session.js'
import type { Row } from './statement.js'

/** Where to connect; asked anew for each connection, because an embedded server may have moved. */
export type ConnectionSettings = pg.ClientConfig

export interface LaneOptions {
  /** Resolves with where to connect, and the start-up options beside the usual ones. */
  readonly settings: () => Promise<ConnectionSettings>
  readonly purpose: string
  readonly connectMs: number
  /** The other lanes of its store. Default: none. */
  readonly group?: LaneGroup
  /** Settings of its sessions beside the usual ones. Default: none. */
  readonly session?: SessionSettings
  /** True of a lane whose statements write nothing. It asks every few seconds whether its server still takes writes, because no
   *  answer would tell it. Default false. */
  readonly onlyReads?: boolean
  /** What it waits for before it is used on a new server. Default null: nothing. */
  readonly heldUntil?: HeldUntil | null
  /** What its commits wait for. Default 'replicated'. */
  readonly durability?: Durability
}

/** Runs a query inside a transaction. */
type SendInside = (query: Query) => Promise<Row[]>

interface Connection {
  readonly client: pg.Client
  facts: SessionFacts
  checkedMs: number
  /** Queries that the server has not answered, also when nobody waits for it any more. */
  unanswered: number
  /** True once the server is asked to end what it runs, see #giveUp. */
  isGivenUp: boolean
}

// How old an answer from a server that was demoted may be.
const CHECK_AGAIN_MS = 3_000
// How long, and how often, the server is asked to end what nobody waits for any more.
const CANCEL_MS = 1_000
const CANCEL_PAUSE_MS = 10

export class Lane {
  readonly #options: LaneOptions
  readonly #group: LaneGroup
  readonly #session: Session
  #connection: Connection | null = null
  #connecting: Promise<Connection> | null = null
  /** How many transactions, and queries that must not overlap, are under way or wait; and when the last of them has ended. */
  #turns = 0
  #lastTurn: Promise<unknown> = Promise.resolve()
  /** The connection that is being opened, until its server has been identified. */
  #dialing: pg.Client | null = null
  /** Where it connected last, for messages: asking again could ask for a password. */
  #lastSettings: ConnectionSettings | null = null
  #isClosed = false

  constructor(options: LaneOptions) {
    this.#options = options
    this.#group = options.group ?? new LaneGroup()
    this.#session = sessionWith(options.session ?? {}, options.durability)
    this.#group.join(this)
  }

  /** Runs one query; raises a HoldfastError. On an open connection it is written before this returns. */
  async query(query: Query, deadlineMs: number): Promise<Row[]> {
    return (await this.queryTogether([query], deadlineMs))[0]!
  }

  /** Runs queries in one exchange and one transaction, and answers the rows of each. */
  queryTogether(queries: readonly Query[], deadlineMs: number): Promise<Row[][]> {
    const connection = this.#connection
    if (this.#turns === 0 && connection !== null && !isPooled(connection) && !this.#isInDoubt(connection)) {
      return this.#send(connection, queries, deadlineMs)
    }
    return this.#queryWhenOpen(queries, deadlineMs)
  }

  async #queryWhenOpen(queries: readonly Query[], deadlineMs: number): Promise<Row[][]> {
    for (;;) {
      // A query sent meanwhile would become part of the transaction.
      while (this.#turns > 0) await this.#lastTurn
      const connection = await this.#open()
      if (this.#turns > 0) continue
      if (!isPooled(connection)) return this.#send(connection, queries, deadlineMs)
      return this.#inTurn(async () => this.#send(await this.#open(), queries, deadlineMs))
    }
  }

  /** Does something that nothing else on this lane may overlap with. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#turns++
    const result = this.#lastTurn.then(work).finally(() => {
      this.#turns--
    })
    this.#lastTurn = result.catch(() => {})
    return result
  }

  async #send(connection: Connection, queries: readonly Query[], deadlineMs: number): Promise<Row[][]> {
    const guard = connection.facts.hasSettings || queries.every(isScript) ? NO_GUARD : this.#guard()
    const isNamed = this.#isNamed(connection)
    const send = async (sent: readonly Query[]) =>
      (await this.#exchange(connection, [...guard, ...sent], deadlineMs)).results.slice(guard.length)
    try {
      return await send(isNamed ? queries : queries.map(unnamed))
    } catch (thrown) {
      if (!isNamed || !isForgotten(thrown)) throw thrown
      return send(queries.map(unnamed))
    }
  }

  // Behind a pooler that changes servers nothing but an answer can tell: a statement for another timeline than expected does nothing.
  #guard(): readonly Query[] {
    const identity = this.#guarded()
    return identity === null ? this.#session.guard : [...this.#session.guard, script(onTimeline(identity))]
  }

  #guarded(): ServerIdentity | null {
    return this.#group.guardsTimeline ? this.#group.identity : null
  }

  // Behind a pooler that hands out another server connection for each transaction nobody knows what was prepared where.
  #isNamed({ facts }: Connection): boolean {
    return this.#group.prepares && facts.hasSettings
  }

  /**
   * Runs several queries as one transaction, alone on the lane, at read committed; rolls back when `work` raises. `work` is run a
   * second time when the server has forgotten what was prepared.
   */
  transaction<T>(work: (send: SendInside) => Promise<T>, deadlineMs: number): Promise<T> {
    return this.#inTurn(() => this.#transactTwice(work, deadlineMs))
  }

  async #transactTwice<T>(work: (send: SendInside) => Promise<T>, deadlineMs: number): Promise<T> {
    try {
      return await this.#transact(work, deadlineMs)
    } catch (error) {
      if (!isForgotten(error)) throw error
      return this.#transact(work, deadlineMs)
    }
  }

  async #transact<T>(work: (send: SendInside) => Promise<T>, deadlineMs: number): Promise<T> {
    const connection = await this.#open()
    const { begin, guardedBegin } = this.#session
    const command = (text: string) => this.#exchange(connection, [script(text)], deadlineMs)
    // The first failure is the cause of all that follow: after it the server refuses every statement (25P02).
    let first: unknown = null
    const send: SendInside = async (query) => {
      const sent = this.#isNamed(connection) ? query : unnamed(query)
      try {
        return (await this.#exchange(connection, [sent], deadlineMs)).results[0]!
      } catch (error) {
        first ??= error
        throw isAborted(error) ? first : error
      }
    }
    const identity = this.#guarded()
    const guard = identity === null ? guardedBegin : `${guardedBegin}; ${onTimeline(identity)}`
    await command(connection.facts.hasSettings ? begin : guard)
    try {
      const value = await work(send)
      // A transaction that failed is rolled back by COMMIT as well, without an error.
      if ((await command('COMMIT')).tag !== 'COMMIT') throw first ?? rolledBack(this.#options.purpose)
      return value
    } catch (error) {
      // When the rollback fails as well the connection is gone, and with it the transaction.
      await command('ROLLBACK').catch(() => this.#drop(connection))
      throw error
    }
  }

  async #exchange(
    connection: Connection,
    queries: readonly Query[],
    deadlineMs: number,
  ): Promise<{ results: Row[][]; tag: string }> {
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise((resolve, reject) => {
        timer = setTimeout(() => {
          reject({ error: late(this.#options.purpose, connection.facts, deadlineMs), isFatal: true } satisfies Failure)
          this.#giveUp(connection)
          // A server that freezes breaks no connection.
          this.#group.doubt()
        }, deadlineMs)
        connection.unanswered++
        const exchange = new Exchange(queries, (failure, results, tag) => {
          connection.unanswered--
          if (failure === null || !failure.isFatal) this.#group.answeredMs = performance.now()
          if (failure === null) resolve({ results, tag })
          else reject(failure)
        })
        connection.client.query(exchange)
      })
    } catch (thrown) {
      throw this.#failed(connection, thrown as Failure)
    } finally {
      clearTimeout(timer)
    }
  }

  #failed(connection: Connection, { error: thrown, isFatal }: Failure): HoldfastError {
    if (isOtherTimeline(thrown)) {
      this.#drop(connection)
      return notYet(this.#options.purpose)
    }
    const error = storeError(this.#options.purpose, thrown, isFatal)
    if (isForgotten(error)) this.#group.forgot()
    if (!connection.isGivenUp && (isFatal || sqlStateOf(thrown) === null)) this.#drop(connection)
    if (error.code === 'store_read_only') this.#demoted(connection)
    return error
  }

  // Only a new connection can find the new primary. The other lanes need one too, unless this one led to a standby from the first.
  #demoted(connection: Connection): void {
    this.#drop(connection)
    this.#group.doubt()
    if (!connection.facts.isReadOnly) this.#group.renew()
  }

  /** Ends the connection if nothing is under way on it. The next query connects anew. */
  hangUp(): void {
    const connection = this.#connection
    if (connection === null || connection.unanswered > 0 || this.#turns > 0) return
    this.#connection = null
    connection.client.end().catch(() => {})
  }

  /** Runs a query that writes on a lane that otherwise only reads: its answer says by itself whether the server takes writes, so that is
   *  not asked before. */
  async write(query: Query, deadlineMs: number): Promise<Row[]> {
    const connection = this.#connection
    if (connection === null || isPooled(connection)) return this.query(query, deadlineMs)
    connection.checkedMs = performance.now()
    return (await this.#send(connection, [query], deadlineMs))[0]!
  }

  /** Whether it has a connection that leads to one session of a server, and to no pooler. */
  get hasSession(): boolean {
    return this.#connection !== null && !isPooled(this.#connection)
  }

  /** Gives up the connection; what is under way on it fails and is safe to repeat. */
  renew(): void {
    if (this.#connection !== null) this.#drop(this.#connection)
    // A server that is frozen takes no connection either.
    if (this.#dialing !== null) destroy(this.#dialing)
  }

  async #open(): Promise<Connection> {
    if (this.#isClosed) throw new HoldfastError('closed', `the store is closed: it cannot ${this.#options.purpose}`)
    const connection = this.#connection
    if (connection !== null && (!this.#isInDoubt(connection) || (await this.#isStillGood(connection))))
      return connection
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null
    })
    return this.#connecting
  }

  #isInDoubt({ checkedMs }: Connection): boolean {
    return this.#options.onlyReads === true && performance.now() - checkedMs > CHECK_AGAIN_MS
  }

  async #isStillGood(connection: Connection): Promise<boolean> {
    connection.checkedMs = performance.now()
    try {
      const { isReadOnly } = await this.#check(connection)
      if (isReadOnly) this.#demoted(connection)
    } catch {
      // A connection that broke is dropped, and any other failure is for the query itself to meet.
    }
    return this.#connection === connection
  }

  async #check(connection: Connection): Promise<SessionFacts> {
    const { results } = await this.#exchange(connection, [script(this.#session.check)], this.#options.connectMs)
    return readFacts(results[0]!)
  }

  async #connect(): Promise<Connection> {
    try {
      const connection = await this.#dialEitherWay()
      if (this.#isClosed) {
        destroy(connection.client)
        throw new HoldfastError('closed', `the store was closed while it connected to ${this.#options.purpose}`)
      }
      this.#connection = connection
      const { heldUntil = null, purpose } = this.#options
      if (heldUntil !== null && this.#group.isHeld(heldUntil)) throw notYet(purpose)
      return connection
    } catch (thrown) {
      const error = isHoldfastError(thrown) ? thrown : connectError(await this.#where(), thrown)
      if (this.#connection === null) this.#group.doubt()
      throw error
    }
  }

  // Some poolers refuse start-up options. That they did is certain once the same connection is taken without them.
  async #dialEitherWay(): Promise<Connection> {
    if (!this.#group.takesOptions) return this.#dial(false)
    try {
      return await this.#dial(true)
    } catch (thrown) {
      if (!refusesOptions(thrown)) throw thrown
      const connection = await this.#dial(false)
      this.#group.takesOptions = false
      return connection
    }
  }

  async #dial(withOptions: boolean): Promise<Connection> {
    this.#lastSettings = await this.#options.settings()
    const { options: more = '', ...settings } = withoutUrlOptions(this.#lastSettings)
    const client = new pg.Client({
      // A server that is gone without a word is noticed within about 13 s: Node.js asks ten times, a second apart.
      keepAlive: true,
      keepAliveInitialDelayMillis: 3_000,
      pipeline: true,
      ...settings,
      application_name: `holdfast ${this.#options.purpose}`.slice(0, 63),
      connectionTimeoutMillis: this.#options.connectMs,
      ...(withOptions ? { options: `${more} ${this.#session.options}`.trim() } : {}),
    })
    const forget = () => {
      if (this.#connection?.client !== client) return
      this.#connection = null
      this.#group.doubt()
    }
    // Without a listener an error between two queries would end the process.
    client.on('error', forget)
    client.on('end', forget)
    this.#dialing = client
    try {
      await client.connect()
      const connection = { client, facts: UNKNOWN, checkedMs: performance.now(), unanswered: 0, isGivenUp: false }
      connection.facts = await this.#check(connection)
      await this.#identify(connection)
      return connection
    } catch (error) {
      if (this.#dialing === client) this.#dialing = null
      destroy(client)
      throw error
    }
  }

  /** Raises for a server that nothing may be written to: one of a timeline that is over, or a standby where there are others. */
  async #identify(connection: Connection): Promise<void> {
    if (connection.facts.isReadOnly) {
      this.#dialing = null
      if (this.#group.isChoosing) throw standby(await this.#where())
      return
    }
    if (!this.#group.asksIdentity) {
      this.#dialing = null
      return
    }
    let found: ServerIdentity | null = null
    try {
      found = readIdentity((await this.#exchange(connection, [IDENTITY], this.#options.connectMs)).results[0]!)
    } catch (error) {
      if (!isHoldfastError(error, 'store_refused') && !isHoldfastError(error, 'access_denied')) throw error
      this.#group.asksIdentity = false
    }
    // From here on `renew` is about servers before this one.
    this.#dialing = null
    if (found === null) return
    const seen = this.#group.identity
    if (this.#group.saw(found) === 'stale') throw stale(await this.#where(), found, seen!)
  }

  async #where(): Promise<string> {
    const { connectionString, host, port, database } = this.#lastSettings ?? (await this.#options.settings())
    if (connectionString === undefined) return `${host}:${port}/${database}`
    const url = new URL(connectionString)
    return `${url.hostname || 'localhost'}:${url.port || 5432}${url.pathname}`
  }

  // A backend that waits for a lock does not notice that its client is gone, and its own limits count by a clock that may be set back.
  // Nobody but its client can end it then, and each query behind it as well. A pooler passes that on while its client is connected.
  #giveUp(connection: Connection): void {
    if (this.#connection === connection) this.#connection = null
    if (connection.isGivenUp) return
    connection.isGivenUp = true
    void this.#cancelAll(connection).finally(() => destroy(connection.client))
  }

  async #cancelAll(connection: Connection): Promise<void> {
    const endMs = performance.now() + CANCEL_MS
    do {
      await requestCancel(connection.client)
      if (connection.unanswered > 0) await sleep(CANCEL_PAUSE_MS)
    } while (connection.unanswered > 0 && performance.now() < endMs)
  }

  #drop(connection: Connection): void {
    if (this.#connection === connection) this.#connection = null
    destroy(connection.client)
  }

  /** Asks the server to end what this connection is running. Resolves when it has taken note, or could not be reached. */
  async cancelRunning(): Promise<void> {
    if (this.#connection !== null) await requestCancel(this.#connection.client)
  }

  /** The connection, for listening. */
  async connected(): Promise<pg.Client> {
    return (await this.#open()).client
  }

  /** Ends the connection, politely for a second and then by destroying the socket. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#group.leave(this)
    await this.#connecting?.catch(() => {})
    const client = this.#connection?.client
    this.#connection = null
    if (client === undefined) return
    let timer: NodeJS.Timeout | undefined
    const impatience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, 1_000)
    })
    await Promise.race([client.end().catch(() => {}), impatience])
    clearTimeout(timer)
    destroy(client)
  }
}

const NO_GUARD: readonly Query[] = []

/** Text without a name and values: one command or several. */
function script(text: string): Query {
  return { name: '', text, values: [] }
}

function isScript({ name, values }: Query): boolean {
  return name === '' && values.length === 0
}

function unnamed({ text, values }: Query): Query {
  return { name: '', text, values }
}

// Until the first answer: nothing is known of the session, and nothing is sent before that answer.
const UNKNOWN: SessionFacts = { isReadOnly: true, hasSettings: false, backend: null }

// A pooler gives a server connection to its next client as soon as an answer has ended, also when a part of this client's next query
// is on it already: the rest goes to another server. PgBouncer 1.18 does that even in the middle of a message. So behind a
// pooler no query is sent before the last one is answered. A pooler announces a process of its own making.
function isPooled({ client, facts }: Connection): boolean {
  return !facts.hasSettings || facts.backend !== (client as unknown as { processID: number | null }).processID
}

// What was prepared is not there (26000), or there before it was prepared (42P05).
function isForgotten(error: unknown): boolean {
  const state = isHoldfastError(error) ? error.details.sqlState : null
  return state === '26000' || state === '42P05'
}

function isAborted(error: unknown): boolean {
  return isHoldfastError(error) && error.details.sqlState === '25P02'
}

// The driver would take the options of a URL in place of ours.
function withoutUrlOptions(settings: ConnectionSettings): ConnectionSettings {
  const { connectionString, options = '' } = settings
  if (connectionString === undefined || !connectionString.includes('options=')) return settings
  const url = new URL(connectionString)
  const own = url.searchParams.get('options') ?? ''
  url.searchParams.delete('options')
  return { ...settings, connectionString: url.href, options: `${own} ${options}`.trim() }
}

// A server that takes a connection answers its first statement. A pooler takes it, and has that statement wait for a server.
function late(purpose: string, facts: SessionFacts, deadlineMs: number): HoldfastError {
  const what =
    facts === UNKNOWN
      ? `took a connection to ${purpose} and did not answer its first statement within ${deadlineMs} ms; if a pooler is in front, ${POOL_TOO_SMALL}`
      : `did not answer within ${deadlineMs} ms when asked to ${purpose}`
  const pool = facts === UNKNOWN || facts.hasSettings ? '' : `; a pooler is in front, and ${POOL_TOO_SMALL}`
  return new HoldfastError(
    'store_unavailable',
    `PostgreSQL ${what}${pool}; the connection was cut, the call is safe to repeat`,
    { retryable: true },
  )
}

function notYet(purpose: string): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `PostgreSQL has changed hands: what the new server may have lost is said again before it is asked to ${purpose}; the call is safe to repeat`,
    { retryable: true },
  )
}

function standby(where: string): HoldfastError {
  return new HoldfastError(
    'store_read_only',
    `PostgreSQL at ${where} takes no writes any more; the primary is looked for again, the call is safe to repeat`,
    { retryable: true },
  )
}

function stale(where: string, { timeline }: ServerIdentity, seen: ServerIdentity): HoldfastError {
  return new HoldfastError(
    'store_stale',
    `PostgreSQL at ${where} is of timeline ${timeline}, and timeline ${seen.timeline} of the same cluster was seen before: this is an old primary that nothing may be written to; stop it, or make it a standby of the new one`,
    { retryable: true, details: { timeline, seen: seen.timeline } },
  )
}

function rolledBack(purpose: string): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `PostgreSQL rolled a transaction back when asked to commit it to ${purpose}; the call is safe to repeat`,
    { retryable: true },
  )
}

function destroy(client: pg.Client): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}
