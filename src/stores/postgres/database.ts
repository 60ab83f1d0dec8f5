// The store's connections, each for its own purpose, so that a slow list never holds up a settlement.

import type { Durability } from '../../core/durability.js'
import { HoldfastError } from '../../core/errors.js'
import type { Queryable } from '../../core/job-store.js'
import type { Clock } from '../../core/ports.js'
import type { Query } from './exchange.js'
import { type ConnectionSettings, Lane } from './lane.js'
import { type HeldUntil, LaneGroup } from './lane-group.js'
import { checkTransaction, explainArrayNulls, Whereabouts } from './own-transaction.js'
import { SearchTurns } from './search-turns.js'
import type { SessionSettings } from './session.js'
import { inSchema, preparedName, type Row, type Statement } from './statement.js'
import type { StatementLane } from './statement-lane.js'

/** What each connection is for, in the words of error messages. */
const PURPOSES = {
  enqueue: 'write jobs',
  keys: 'write jobs with keys',
  held: 'find held keys',
  claim: 'claim jobs',
  settle: 'settle jobs',
  extend: 'extend leases',
  upkeep: 'do upkeep',
  retention: 'drop old days',
  operate: 'answer an operator',
  look: 'look up jobs',
  identify: 'look up API keys',
  search: 'search jobs',
  count: 'count jobs',
  bulk: 'do bulk actions',
  again: 'say again what a failover lost',
} as const

export type Purpose = keyof typeof PURPOSES

/**
 * How the settings of the connections differ. Reads have a time limit, because other reads wait behind them.
 * Nothing waits long for a lock. Otherwise a call would block those behind it, and a backend would still wait after its caller gave up.
 * Migrations hold their locks for 250 ms at most, retention for 450, and rows that a user's open transaction may hold are skipped. If such
 * a transaction is writing a key, only the callers of that key wait, not the connection: see keys-in-writing.ts. Settlements take the
 * general path after half a second, see settle.ts.
 */
const APART: Readonly<Record<Purpose, { readonly session: SessionSettings; readonly onlyReads: boolean }>> = {
  enqueue: { session: { lock_timeout: '2s' }, onlyReads: false },
  keys: { session: { lock_timeout: '2s' }, onlyReads: false },
  held: { session: { lock_timeout: '2s' }, onlyReads: false },
  claim: { session: { lock_timeout: '2s' }, onlyReads: false },
  settle: { session: { lock_timeout: '500ms' }, onlyReads: false },
  extend: { session: { lock_timeout: '2s' }, onlyReads: false },
  upkeep: { session: { lock_timeout: '2s' }, onlyReads: false },
  retention: { session: { lock_timeout: '2s' }, onlyReads: false },
  operate: { session: { lock_timeout: '2s' }, onlyReads: false },
  look: { session: { statement_timeout: '2s' }, onlyReads: true },
  identify: { session: { statement_timeout: '2s' }, onlyReads: true },
  search: { session: { statement_timeout: '2s' }, onlyReads: true },
  count: { session: { statement_timeout: '2s' }, onlyReads: true },
  bulk: { session: { statement_timeout: '5s', lock_timeout: '2s' }, onlyReads: false },
  // Those who say something again wait for each other's transactions, and nothing else waits behind them.
  again: { session: { lock_timeout: '5s' }, onlyReads: false },
}

/** What must not be done on a new primary before this process has said again what that may have lost: a lease that it would not find is
 *  only lost if nobody restores it. Nor is anything claimed before the others have, also not by a claim that was sent before the change and
 *  has waited for a connection since. */
const HELD_UNTIL: Readonly<Partial<Record<Purpose, HeldUntil>>> = {
  claim: 'said by all',
  settle: 'said',
  extend: 'said',
}

/** Steps of retention that lock nobody out may take longer than calls that somebody waits for. */
const RETENTION_DEADLINE_MS = 120_000

export interface DatabaseOptions {
  readonly settings: () => Promise<ConnectionSettings>
  readonly schema: string
  /** A test's clock. Null leaves time to the server. */
  readonly clock: Clock | null
  readonly connectMs: number
  readonly deadlineMs: number
  /** The other lanes of its store. Default: none but its own. */
  readonly group?: LaneGroup
  /** What its commits wait for. Default 'replicated'. */
  readonly durability?: Durability
  /** Makes the lane of a purpose, in place of one with a connection of its own. */
  readonly laneFor?: (purpose: string, session: SessionSettings) => StatementLane
}

/** A statement and its values. */
export type Call = readonly [statement: Statement, values: readonly unknown[]]

/** Sends a statement and reads its rows. */
export type Send = (...call: Call) => Promise<Row[]>

/** Sends statements in one transaction and reads the rows of each. */
export type SendTogether = (calls: readonly Call[]) => Promise<Row[][]>

export class Database {
  readonly schema: string
  readonly durability: Durability
  readonly #clock: Clock | null
  readonly #deadlineMs: number
  readonly #lanes: Readonly<Record<Purpose, StatementLane>>
  readonly #turns: SearchTurns
  readonly #whereabouts: Whereabouts
  readonly #texts = new Map<Statement, Omit<Query, 'values'>>()

  constructor(options: DatabaseOptions) {
    this.schema = options.schema
    this.durability = options.durability ?? 'replicated'
    this.#clock = options.clock
    this.#deadlineMs = options.deadlineMs
    const { settings, connectMs, group = new LaneGroup() } = options
    const lane = (purpose: Purpose): StatementLane =>
      options.laneFor?.(PURPOSES[purpose], APART[purpose].session) ??
      new Lane({
        ...{ settings, connectMs, group, purpose: PURPOSES[purpose], ...APART[purpose] },
        heldUntil: HELD_UNTIL[purpose] ?? null,
        durability: this.durability,
      })
    const purposes = Object.keys(PURPOSES) as Purpose[]
    this.#lanes = Object.fromEntries(purposes.map((purpose) => [purpose, lane(purpose)])) as Record<
      Purpose,
      StatementLane
    >
    this.#whereabouts = new Whereabouts(this.schema, (place) => this.send('look', place, []))
    this.#turns = new SearchTurns(this.#lanes.search, this.#deadlineMs)
  }

  /** The time for statements. Null, which means the server's clock, except in tests. */
  now(): string | null {
    return this.#clock === null ? null : new Date(this.#clock.now()).toISOString()
  }

  send(purpose: Purpose, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return this.#lanes[purpose].query(this.#query(statement, values), this.#deadlineOf(purpose))
  }

  /** Sends statements in one exchange, with one commit for all of them. */
  sendTogether(purpose: Purpose, calls: readonly Call[]): Promise<Row[][]> {
    const queries = calls.map((call) => this.#query(...call))
    return this.#lanes[purpose].queryTogether(queries, this.#deadlineOf(purpose))
  }

  /** Runs a statement of a search: one at a time, in turn, and ended on the server when its caller is gone. */
  search(statement: Statement, values: readonly unknown[], signal?: AbortSignal): Promise<Row[]> {
    return this.#turns.run(this.#query(statement, values), signal)
  }

  /** Several statements as one transaction. */
  transaction<T>(purpose: Purpose, work: (send: Send) => Promise<T>): Promise<T> {
    return this.#lanes[purpose].transaction(
      (send) => work((statement, values) => send(this.#query(statement, values))),
      this.#deadlineOf(purpose),
    )
  }

  /** Asks the server to end what runs there now. Resolves when it has taken note. */
  cancelRunning(purpose: Purpose): Promise<void> {
    return this.#lanes[purpose].cancelRunning()
  }

  /** Ends connections on which nothing is under way, but those of these purposes. */
  rest(kept: readonly Purpose[]): void {
    for (const [purpose, lane] of Object.entries(this.#lanes)) if (!kept.includes(purpose as Purpose)) lane.hangUp()
  }

  /** A statement with its values, for a connection that is not one of these. */
  queryOf(statement: Statement, values: readonly unknown[]): Query {
    return this.#query(statement, values)
  }

  /** Ends the connection, which is opened again when it is needed. */
  hangUp(purpose: Purpose): void {
    this.#lanes[purpose].renew()
  }

  #deadlineOf(purpose: Purpose): number {
    return purpose === 'retention' ? Math.max(this.#deadlineMs, RETENTION_DEADLINE_MS) : this.#deadlineMs
  }

  /** Sends through a caller's own transaction. Rows may come as objects there: statements for it return text columns only. */
  through(tx: Queryable): Send {
    if (typeof tx?.query !== 'function') {
      throw new HoldfastError(
        'invalid_option',
        'tx must be a client with query(text, values), such as a pg client inside a transaction',
      )
    }
    const send: Send = async (statement, values) => {
      const { rows } = await tx.query(this.#text(statement).text, [...values]).catch(explainArrayNulls)
      return rows.map((row) => (Array.isArray(row) ? row : Object.values(row as object)) as Row)
    }
    const check = async () => {
      await checkTransaction(tx)
      await this.#whereabouts.check(tx, (place) => send(place, []))
    }
    let isChecked: Promise<void> | null = null
    return async (statement, values) => {
      isChecked ??= check()
      await isChecked
      return send(statement, values)
    }
  }

  #query(statement: Statement, values: readonly unknown[]): Query {
    const { name, text } = this.#text(statement)
    return { name, text, values }
  }

  #text(statement: Statement): Omit<Query, 'values'> {
    let query = this.#texts.get(statement)
    if (query === undefined) {
      const text = inSchema(statement.sql, this.schema)
      query = { name: preparedName(statement.name, text), text }
      this.#texts.set(statement, query)
    }
    return query
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#lanes).map((lane) => lane.close()))
  }
}
