// One exchange with the server: a statement, its values, its rows. The driver's own query object asks for a description of the
// result and builds rows from it; ours knows its columns, and takes the text of each row as it comes.

import pg from 'pg'
import type { Row } from './statement.js'

/** One query, prepared under `name` where the connection allows it; the empty name is never kept. */
export interface Query {
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}

export interface ExchangeOptions {
  /** Whether it is prepared under its name. */
  readonly isNamed: boolean
  /** Statements that go before it, in the same implicit transaction; their rows are passed over. */
  readonly guard: readonly string[]
  /** Called once. `isFatal` when the server ended the connection with the error. */
  readonly answered: (failure: Failure | null, rows: Row[], tag: string) => void
}

/** Why a query failed. */
export interface Failure {
  readonly error: unknown
  readonly isFatal: boolean
}

/** What of the driver's connection an exchange writes to. */
interface Wire {
  readonly parsedStatements: Record<string, string | undefined>
  readonly submittedNamedStatements: Record<string, string | undefined>
  parse(message: { text: string; name: string }): void
  bind(message: { statement: string; values: readonly unknown[]; valueMapper: (value: unknown) => unknown }): void
  execute(message: object): void
  sync(): void
  on(event: string, listener: () => void): void
  off(event: string, listener: () => void): void
}

/** Sends a query and calls back once. */
export class Exchange extends pg.Query {
  readonly #query: Query
  readonly #name: string
  readonly #guard: readonly string[]
  readonly #answered: ExchangeOptions['answered']
  readonly #rows: Row[] = []
  #tag = ''
  #guardLeft: number

  constructor(query: Query, { isNamed, guard, answered }: ExchangeOptions) {
    const name = isNamed ? query.name : ''
    // The driver keeps count of what was prepared by the name and text it finds here.
    super({ name, text: query.text, values: [''] })
    this.#query = query
    this.#name = name
    this.#guard = this.requiresPreparation() ? guard : []
    this.#guardLeft = this.#guard.length
    this.#answered = answered
    Object.assign(this, { callback: () => answered(null, this.#rows, this.#tag) })
  }

  // A script of several commands, such as a migration, has no name and no values and goes as plain text.
  requiresPreparation(): boolean {
    return this.#query.name !== '' || this.#query.values.length > 0
  }

  prepare(wire: Wire): void {
    for (const text of this.#guard) {
      wire.parse({ name: '', text })
      wire.bind({ statement: '', values: [], valueMapper: asText })
      wire.execute({})
    }
    const name = this.#name
    const isKnown = wire.parsedStatements[name] !== undefined || wire.submittedNamedStatements[name] !== undefined
    if (name === '' || !isKnown) {
      wire.parse({ name, text: this.#query.text })
      if (name !== '') wire.submittedNamedStatements[name] = this.#query.text
    }
    wire.bind({ statement: name, values: this.#query.values, valueMapper: asText })
    wire.execute({})
    wire.sync()
  }

  handleRowDescription(): void {}

  handleDataRow({ fields }: { readonly fields: Row }): void {
    if (this.#guardLeft === 0) this.#rows.push(fields)
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    if (this.#guardLeft > 0) this.#guardLeft--
    else this.#tag = text
  }

  // A server says how bad an error is in the language of its messages. What it does is plain: after an error that ends the session
  // the connection ends, and after any other it is ready for the next query.
  handleError(error: unknown, wire: Wire): void {
    const { severity } = error as { severity?: unknown }
    if (severity === undefined || severity === 'FATAL' || severity === 'PANIC') {
      this.#answered({ error, isFatal: severity !== undefined }, [], '')
      return
    }
    const tell = (isFatal: boolean) => {
      wire.off('readyForQuery', goesOn)
      wire.off('end', ends)
      this.#answered({ error, isFatal }, [], '')
    }
    const goesOn = () => tell(false)
    const ends = () => tell(true)
    wire.on('readyForQuery', goesOn)
    wire.on('end', ends)
  }
}

/** Parameters are text, numbers, booleans or null; arrays are written by `arrayOf` before they come here. */
function asText(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
}
