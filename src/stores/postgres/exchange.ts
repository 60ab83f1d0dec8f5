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

/** What of the driver's connection an exchange writes to. */
interface Wire {
  readonly parsedStatements: Record<string, string | undefined>
  readonly submittedNamedStatements: Record<string, string | undefined>
  parse(message: { text: string; name: string }): void
  bind(message: { statement: string; values: readonly unknown[]; valueMapper: (value: unknown) => unknown }): void
  execute(message: object): void
  sync(): void
}

/** Sends a query and calls back once. */
export class Exchange extends pg.Query {
  readonly #query: Query
  readonly #rows: Row[] = []

  constructor(query: Query, answered: (error: Error | null, rows: Row[]) => void) {
    // The driver keeps count of what was prepared by the name and text it finds here.
    super({ name: query.name, text: query.text, values: [''] })
    this.#query = query
    Object.assign(this, { callback: (error: Error | null) => answered(error ?? null, this.#rows) })
  }

  // A script of several commands, such as a migration, has no values and goes as plain text.
  requiresPreparation(): boolean {
    return this.#query.name !== '' || this.#query.values.length > 0
  }

  prepare(wire: Wire): void {
    const { name, text, values } = this.#query
    const isKnown = wire.parsedStatements[name] !== undefined || wire.submittedNamedStatements[name] !== undefined
    if (name === '' || !isKnown) {
      wire.parse({ name, text })
      if (name !== '') wire.submittedNamedStatements[name] = text
    }
    wire.bind({ statement: name, values, valueMapper: asText })
    wire.execute({})
    wire.sync()
  }

  handleRowDescription(): void {}

  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.#rows.push(fields)
  }

  handleCommandComplete(): void {}
}

/** Parameters are text, numbers, booleans or null; arrays are written by `arrayOf` before they come here. */
function asText(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
}
