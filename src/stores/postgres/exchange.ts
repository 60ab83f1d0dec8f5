// One exchange with the server: one or more statements, one round trip, one commit. The driver's own query object describes
// each result and builds rows from the description; ours knows its columns, and takes the text of each row as it comes.

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

type Answered = (error: Error | null, results: readonly Row[][]) => void

/** Whether the server of this connection knows every query already, so that they can go together. */
export function knowsAll(client: pg.Client, queries: readonly Query[]): boolean {
  const { parsedStatements } = (client as unknown as { connection: Wire }).connection
  return queries.every(({ name }) => name !== '' && parsedStatements[name] !== undefined)
}

/**
 * Sends queries as one exchange; calls back once with the rows of each. Several form one transaction: the server commits at
 * the end of the exchange, and what follows an error is skipped. All but a single one must be known to the server.
 */
export class Exchange extends pg.Query {
  readonly #queries: readonly Query[]
  readonly #results: Row[][]
  #at = 0

  constructor(queries: readonly Query[], answered: Answered) {
    // The driver keeps count of what was prepared by the name and text it finds on the query.
    const { name, text } = queries[0]!
    super({ name, text, values: [''] })
    this.#queries = queries
    this.#results = queries.map(() => [])
    Object.assign(this, { callback: (error: Error | null) => answered(error ?? null, this.#results) })
  }

  // A script of several commands, such as a migration, has no values and goes as plain text.
  requiresPreparation(): boolean {
    const [{ name, values }] = this.#queries as [Query]
    return name !== '' || values.length > 0
  }

  prepare(wire: Wire): void {
    for (const { name, text, values } of this.#queries) {
      const isKnown =
        name !== '' && (wire.parsedStatements[name] !== undefined || wire.submittedNamedStatements[name] !== undefined)
      if (!isKnown) {
        wire.parse({ name, text })
        if (name !== '') wire.submittedNamedStatements[name] = text
      }
      wire.bind({ statement: name, values, valueMapper: asText })
      wire.execute({})
    }
    wire.sync()
  }

  handleDataRow({ fields }: { readonly fields: Row }): void {
    // A script may hold more commands than queries; what they say is not asked for.
    this.#results[this.#at]?.push(fields)
  }

  handleRowDescription(): void {}

  handleCommandComplete(): void {
    this.#at++
  }
}

/** Parameters are text, numbers, booleans or null; arrays are written by `arrayOf` before they come here. */
function asText(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
}
