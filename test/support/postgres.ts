// Stores on a PostgreSQL server of the test run that keep nothing yet.

import pg from 'pg'
import type { Clock } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { Database } from '../../src/stores/postgres/database.js'
import { Floors } from '../../src/stores/postgres/floors.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { composeStore } from '../../src/stores/postgres/store.js'
import { WakeUps } from '../../src/stores/postgres/wake.js'

/** The server of the test run (see global-setup.ts). */
export function testServerUrl(): string {
  const url = process.env.HOLDFAST_TEST_URL
  if (url === undefined) throw new Error('HOLDFAST_TEST_URL is not set: run the tests through vitest.config.ts')
  return url
}

/** The connections of one schema. They outlive the stores on it: opening and warming them anew for each takes 80 ms. */
interface Connections {
  readonly sql: pg.Client
  readonly first: StoreConnections
  readonly second: StoreConnections
}

const opened = new Map<string, Promise<Connections>>()

/** Opens a store on a schema that is made when it is missing and emptied when it is there. Closing it closes nothing. */
export async function openCleanStore(url: string, schema: string, clock: Clock, floors?: Floors): Promise<Store> {
  const { sql, first } = await connectionsOf(url, schema)
  await emptySchema(sql, schema)
  return first.openStore(clock, floors)
}

/** Opens the store of a schema as another process would, through connections of its own. */
export async function openPeerStore(url: string, schema: string, clock: Clock): Promise<Store> {
  return (await connectionsOf(url, schema)).second.openStore(clock)
}

/** The servers that tests of roles and transactions run on. Without the second on this machine there is nothing to show for it, and what
 *  needs it is skipped: apt-get install postgresql. */
export const SERVERS: readonly (readonly [name: string, urlOf: () => string | undefined])[] = [
  ['PostgreSQL 18', () => testServerUrl()],
  ['PostgreSQL 15', () => process.env.HOLDFAST_TEST_URL_15],
]

/** The connections a store of the schema uses, for sending one statement of an operation and no more. */
export async function databaseOf(url: string, schema: string): Promise<Database> {
  return (await connectionsOf(url, schema)).first.db
}

/** Removes a schema with everything in it, and its connections. */
export async function dropSchema(url: string, schema: string): Promise<void> {
  const { sql, first, second } = await connectionsOf(url, schema)
  opened.delete(`${url} ${schema}`)
  await Promise.all([first.close(), second.close()])
  await sql.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
  await sql.end()
}

function connectionsOf(url: string, schema: string): Promise<Connections> {
  const name = `${url} ${schema}`
  const known = opened.get(name) ?? connect(url, schema)
  opened.set(name, known)
  return known
}

async function connect(url: string, schema: string): Promise<Connections> {
  await (await postgresStore(url, { schema })).close()
  const sql = new pg.Client({ connectionString: url })
  await sql.connect()
  return { sql, first: new StoreConnections(url, schema), second: new StoreConnections(url, schema) }
}

class StoreConnections {
  readonly #db: Database
  readonly #wakeUps: WakeUps
  #clock: Clock | null = null

  constructor(url: string, schema: string) {
    const settings = async () => ({ connectionString: url })
    const clock = { now: () => this.#clock!.now(), monotonic: () => this.#clock!.monotonic() }
    this.#db = new Database({ settings, schema, clock, connectMs: 10_000, deadlineMs: 20_000 })
    this.#wakeUps = new WakeUps({ settings, schema, connectMs: 10_000 })
  }

  get db(): Database {
    return this.#db
  }

  openStore(clock: Clock, floors = new Floors()): Store {
    this.#clock = clock
    const extender = () => ({ kind: 'postgres' as const, module: null, data: null })
    const store = composeStore({ db: this.#db, wakeUps: this.#wakeUps, extender, leaveServer: async () => {}, floors })
    return { ...store, close: async () => {} }
  }

  async close(): Promise<void> {
    await Promise.all([this.#db.close(), this.#wakeUps.close()])
  }
}

// Partitions are emptied with the table they belong to.
const TABLES = `
SELECT format('%I.%I', pg_namespace.nspname, pg_class.relname) AS name
  FROM pg_catalog.pg_class
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_class.relnamespace
 WHERE pg_namespace.nspname = $1
   AND pg_class.relkind IN ('r', 'p')
   AND NOT pg_class.relispartition
   AND pg_class.relname <> 'migrations'`

// DELETE, not TRUNCATE: with this few rows it takes 15 ms, where giving fifty tables and their indexes new files takes 75.
async function emptySchema(sql: pg.Client, schema: string): Promise<void> {
  const { rows } = await sql.query<{ name: string }>({ name: 'tables', text: TABLES, values: [schema] })
  await sql.query(rows.map(({ name }) => `DELETE FROM ${name}`).join(';'))
}
