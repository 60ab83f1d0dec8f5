// A PostgreSQL store with a bug in it: the text of a statement that it sends, or of the function that claims, is replaced. All else is
// the real store.

import pg from 'pg'
import type { Clock } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { type Call, Database, type Send } from '../../src/stores/postgres/database.js'
import { Floors } from '../../src/stores/postgres/floors.js'
import { inSchema, type Row, type Statement, statement } from '../../src/stores/postgres/statement.js'
import { composeStore } from '../../src/stores/postgres/store.js'
import { WakeUps } from '../../src/stores/postgres/wake.js'
import type { Edit, FlowBug } from './flow-bugs.js'

/** A text with the bug in it; raises unless each text it looks for is there exactly once, or in each of its places. */
function plant(what: string, text: string, edits: readonly Edit[]): string {
  return edits.reduce((edited, [find, replace]) => {
    const pieces = edited.split(find)
    if (pieces.length === 2) return pieces.join(replace)
    throw new Error(`${what}: ${JSON.stringify(find)} is there ${pieces.length - 1} times`)
  }, text)
}

type Purpose = Parameters<Database['send']>[0]

/** The connections of one process, with the bug in the statements it sends. */
class PlantedDatabase extends Database {
  readonly #bug: FlowBug | null
  readonly #planted = new Map<string, Statement>()
  /** The statements in which the bug was planted. */
  readonly touched = new Set<string>()

  constructor(deps: ConstructorParameters<typeof Database>[0], bug: FlowBug | null) {
    super(deps)
    this.#bug = bug
  }

  override send(purpose: Purpose, sql: Statement, values: readonly unknown[]): Promise<Row[]> {
    return super.send(purpose, this.#of(sql), values)
  }

  override async sendTogether(purpose: Purpose, calls: readonly Call[]): Promise<Row[][]> {
    for (const [sql, values] of calls) await this.#before(sql, values)
    return super.sendTogether(
      purpose,
      calls.map(([sql, values]): Call => [this.#of(sql), values]),
    )
  }

  override transaction<T>(purpose: Purpose, work: (send: Send) => Promise<T>): Promise<T> {
    return super.transaction(purpose, (send) => work((sql, values) => send(this.#of(sql), values)))
  }

  override through(tx: Parameters<Database['through']>[0]): Send {
    const send = super.through(tx)
    return async (sql, values) => {
      await this.#before(sql, values)
      return send(this.#of(sql), values)
    }
  }

  #of(sql: Statement): Statement {
    const edits = this.#bug?.statements?.[sql.name]
    if (edits === undefined) return sql
    const known = this.#planted.get(sql.name)
    if (known !== undefined) return known
    const planted = statement(sql.name, plant(this.#bug!.name, sql.sql, edits))
    this.#planted.set(sql.name, planted)
    this.touched.add(sql.name)
    return planted
  }

  async #before(sql: Statement, values: readonly unknown[]): Promise<void> {
    const before = this.#bug?.before?.[sql.name]
    if (before !== undefined) await super.send('operate', statement(`before_${sql.name}`, before), [values[1]])
  }
}

interface Connections {
  clock: Clock | null
  readonly db: PlantedDatabase
  readonly wakeUps: WakeUps
}

/** Processes of one schema that share a bug. */
export class PlantedStores {
  readonly #url: string
  readonly #schema: string
  readonly #bug: FlowBug | null
  readonly #sql: pg.Client
  readonly #open = new Map<string, Connections>()
  readonly #originals: string[] = []

  private constructor(url: string, schema: string, bug: FlowBug | null, sql: pg.Client) {
    this.#url = url
    this.#schema = schema
    this.#bug = bug
    this.#sql = sql
  }

  /** Plants a bug into a schema that has been migrated. */
  static async plant(url: string, schema: string, bug: FlowBug | null): Promise<PlantedStores> {
    const sql = new pg.Client({ connectionString: url })
    await sql.connect()
    const stores = new PlantedStores(url, schema, bug, sql)
    for (const [name, edits] of Object.entries(bug?.functions ?? {})) await stores.#plantFunction(name, edits)
    return stores
  }

  async #plantFunction(name: string, edits: readonly Edit[]): Promise<void> {
    const { rows } = await this.#sql.query<{ definition: string }>(
      'SELECT pg_get_functiondef(oid) AS definition FROM pg_proc WHERE proname = $1 AND pronamespace = $2::regnamespace',
      [name, this.#schema],
    )
    const original = rows[0]!.definition
    const inPlace = edits.map(([find, by]): Edit => [inSchema(find, this.#schema), inSchema(by, this.#schema)])
    const planted = plant(this.#bug!.name, original, inPlace)
    await this.#sql.query(planted)
    this.#originals.push(original)
  }

  /** A store as the process of that number has it, that remembers nothing; `clock` for one whose time is set by the test. Connections are
   *  opened once for each number. */
  again(clock: Clock | null, number = 0): Store {
    const kept = this.#connections(clock === null ? `real ${number}` : `told ${number}`, clock)
    kept.clock = clock
    const { db, wakeUps } = kept
    const extender = () => ({ kind: 'postgres' as const, module: null, data: null })
    const store = composeStore({ db, wakeUps, extender, leaveServer: async () => {}, floors: new Floors() })
    return { ...store, close: async () => {} }
  }

  #connections(name: string, clock: Clock | null): Connections {
    const known = this.#open.get(name)
    if (known !== undefined) return known
    const kept: { clock: Clock | null } = { clock }
    const told = { now: () => kept.clock!.now(), monotonic: () => kept.clock!.monotonic() }
    const settings = async () => ({ connectionString: this.#url })
    const options = { settings, schema: this.#schema, connectMs: 10_000, deadlineMs: 20_000 }
    const db = new PlantedDatabase({ ...options, clock: clock === null ? null : told }, this.#bug)
    const made = Object.assign(kept, { db, wakeUps: new WakeUps(options) })
    this.#open.set(name, made)
    return made
  }

  async empty(): Promise<void> {
    const { rows } = await this.#sql.query<{ name: string }>(
      `SELECT format('%I.%I', $1::text, relname) AS name FROM pg_class
        WHERE relnamespace = $2::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migrations'`,
      [this.#schema, this.#schema],
    )
    await this.#sql.query(rows.map(({ name }) => `DELETE FROM ${name}`).join(';'))
  }

  /** The statements and functions in which the bug is. */
  get planted(): readonly string[] {
    return [
      ...Object.keys(this.#bug?.functions ?? {}),
      ...[...this.#open.values()].flatMap(({ db }) => [...db.touched]),
    ]
  }

  /** Closes everything, and takes the bug out of the schema. */
  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ db, wakeUps }) => Promise.all([db.close(), wakeUps.close()])))
    for (const original of this.#originals) await this.#sql.query(original)
    await this.#sql.end()
  }
}
