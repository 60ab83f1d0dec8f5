// The store's connections, each for its own purpose, so that a slow list never holds up a settlement.

import { HoldfastError } from '../../core/errors.js'
import type { Clock } from '../../core/ports.js'
import type { Queryable } from '../../core/store.js'
import type { Query } from './exchange.js'
import { type ConnectionSettings, Lane } from './lane.js'
import { inSchema, type Row, type Statement } from './statement.js'

/** What each connection is for, in the words of error messages. */
const PURPOSES = {
  enqueue: 'write jobs',
  keys: 'write jobs with keys',
  claim: 'claim jobs',
  settle: 'settle jobs',
  extend: 'extend leases',
  upkeep: 'do upkeep',
  operate: 'answer an operator',
  look: 'look up jobs',
} as const

export type Purpose = keyof typeof PURPOSES

/** A look that takes longer is worth less than what it would hold up. */
const LOOK_OPTIONS = '-c statement_timeout=2000'

export interface DatabaseOptions {
  readonly settings: () => Promise<ConnectionSettings>
  readonly schema: string
  /** A test's clock. Null leaves time to the server. */
  readonly clock: Clock | null
  readonly connectMs: number
  readonly deadlineMs: number
}

/** Sends statements and reads rows. */
export type Send = (statement: Statement, values: readonly unknown[]) => Promise<Row[]>

export class Database {
  readonly schema: string
  readonly #clock: Clock | null
  readonly #deadlineMs: number
  readonly #lanes: Readonly<Record<Purpose, Lane>>
  readonly #texts = new Map<Statement, string>()

  constructor(options: DatabaseOptions) {
    this.schema = options.schema
    this.#clock = options.clock
    this.#deadlineMs = options.deadlineMs
    const { settings, connectMs } = options
    const lane = (purpose: Purpose) => new Lane({ settings, connectMs, purpose: PURPOSES[purpose] })
    const looking = async () => {
      const own = await settings()
      return { ...own, options: `${own.options ?? ''} ${LOOK_OPTIONS}` }
    }
    this.#lanes = {
      enqueue: lane('enqueue'),
      keys: lane('keys'),
      claim: lane('claim'),
      settle: lane('settle'),
      extend: lane('extend'),
      upkeep: lane('upkeep'),
      operate: lane('operate'),
      look: new Lane({ settings: looking, connectMs, purpose: PURPOSES.look }),
    }
  }

  /** The time statements take as theirs: null, and so the server's, except in tests. */
  now(): string | null {
    return this.#clock === null ? null : new Date(this.#clock.now()).toISOString()
  }

  send(purpose: Purpose, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return this.#lanes[purpose].query(this.#query(statement, values), this.#deadlineMs)
  }

  /** Several statements as one transaction. */
  transaction<T>(purpose: Purpose, work: (send: Send) => Promise<T>): Promise<T> {
    return this.#lanes[purpose].transaction(
      (send) => work((statement, values) => send(this.#query(statement, values))),
      this.#deadlineMs,
    )
  }

  /** Sends through a caller's own transaction. Rows may come as objects there: statements for it return text columns only. */
  through(tx: Queryable): Send {
    if (typeof tx?.query !== 'function') {
      throw new HoldfastError(
        'invalid_option',
        'tx must be a client with query(text, values), such as a pg client inside a transaction',
      )
    }
    return async (statement, values) => {
      const { rows } = await tx.query(this.#text(statement), [...values])
      return rows.map((row) => (Array.isArray(row) ? row : Object.values(row as object)) as Row)
    }
  }

  #query(statement: Statement, values: readonly unknown[]): Query {
    return { name: statement.name, text: this.#text(statement), values }
  }

  #text(statement: Statement): string {
    let text = this.#texts.get(statement)
    if (text === undefined) {
      text = inSchema(statement.sql, this.schema)
      this.#texts.set(statement, text)
    }
    return text
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#lanes).map((lane) => lane.close()))
  }
}
