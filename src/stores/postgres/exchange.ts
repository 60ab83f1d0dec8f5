// One exchange with the server: queries, their values, their rows. The driver's own query object asks for a description of the result
// and builds rows from it. Ours knows its columns, and takes the text of each row as it comes.

import pg from 'pg'
import type { Row } from './statement.js'

/** One query, prepared under `name` where the connection allows it; the empty name is never kept. */
export interface Query {
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}

/** Called once. `results` has the rows of each query; `tag` is how the last one ended. */
export type Answered = (failure: Failure | null, results: Row[][], tag: string) => void

/** Why an exchange failed. */
export interface Failure {
  readonly error: unknown
  /** True when the server ended the connection with the error. */
  readonly isFatal: boolean
}

/** The parts of the driver's connection that an exchange uses. */
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

/** Sends queries in one implicit transaction: one round trip and one commit for all of them. */
export class Exchange extends pg.Query {
  readonly #queries: readonly Query[]
  readonly #answered: Answered
  readonly #results: Row[][] = [[]]
  #tag = ''

  constructor(queries: readonly Query[], answered: Answered) {
    // The driver records what was prepared under the name and text that it finds here, see handleCommandComplete.
    super({ name: queries[0]!.name, text: queries[0]!.text, values: [''] })
    this.#queries = queries
    this.#answered = answered
    Object.assign(this, { callback: () => answered(null, this.#results, this.#tag) })
  }

  // A script of several commands, such as a migration, has no name and no values and goes as plain text.
  requiresPreparation(): boolean {
    const [{ name, values }, ...others] = this.#queries as [Query, ...Query[]]
    return name !== '' || values.length > 0 || others.length > 0
  }

  prepare(wire: Wire): void {
    for (const { name, text, values } of this.#queries) {
      const isKnown = wire.parsedStatements[name] !== undefined || wire.submittedNamedStatements[name] !== undefined
      if (name === '' || !isKnown) {
        wire.parse({ name, text })
        if (name !== '') wire.submittedNamedStatements[name] = text
      }
      wire.bind({ statement: name, values, valueMapper: asText })
      wire.execute({})
    }
    wire.sync()
  }

  handleRowDescription(): void {}

  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.#results.at(-1)!.push(fields)
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#tag = text
    const next = this.#queries[this.#results.length]
    if (next === undefined) return
    this.#results.push([])
    // From here on the server parses the next query.
    Object.assign(this, { name: next.name, text: next.text })
  }

  // The severity of an error is in the language of the server's messages, so it is not read. Instead: after an error that ends the
  // session the connection ends, and after any other the server is ready for the next query.
  handleError(error: unknown, wire: Wire): void {
    // The server skipped the queries behind the one that failed, so it has not prepared them.
    for (const { name } of this.#queries.slice(this.#results.length)) delete wire.submittedNamedStatements[name]
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
