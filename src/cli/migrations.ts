// The migrations of a PostgreSQL schema: reading which it has, and printing them as a script. Import it lazily: it loads the
// driver.

import { createHash } from 'node:crypto'
import { HoldfastError } from '../core/errors.js'
import { serversOf } from '../core/server-list.js'
import { openEmbedded } from '../stores/postgres/embedded/server.js'
import { type ConnectionSettings, Lane } from '../stores/postgres/lane.js'
import { isConcurrent } from '../stores/postgres/migrate.js'
import { MIGRATIONS } from '../stores/postgres/migrations/index.js'
import { openAmong } from '../stores/postgres/servers.js'
import { checkSchema, inSchema } from '../stores/postgres/statement.js'
import type { ChosenStore, StoreFlags } from './input/connection.js'

export interface MigrationState {
  readonly schema: string
  readonly applied: readonly { readonly number: number; readonly name: string; readonly appliedAt: Date }[]
  /** Migrations of this version that the schema does not have. */
  readonly missing: readonly { readonly number: number; readonly name: string }[]
}

/** How to connect to a server. */
export type Settings = () => Promise<ConnectionSettings>

const CONNECT_MS = 10_000
const DEADLINE_MS = 10_000

/** Runs something with the connection settings of a PostgreSQL store. An embedded server is started for it. */
export async function atServer<T>({ folder, url }: ChosenStore, run: (settings: Settings) => Promise<T>): Promise<T> {
  if (folder === null) {
    const servers = serversOf(url)
    return run(
      'urls' in servers ? openAmong(servers.urls, CONNECT_MS).settings : async () => ({ connectionString: url }),
    )
  }
  const server = await openEmbedded(folder)
  try {
    return await run(() => server.ensureRunning())
  } finally {
    await server.close()
  }
}

/** Reads which migrations a schema has; raises `schema_too_new` when this version does not know one of them. */
export async function readMigrations(settings: Settings, flags: StoreFlags): Promise<MigrationState> {
  const schema = checkSchema(flags.schema ?? 'holdfast')
  const applied = await readApplied(schema, settings)
  checkKnown(schema, applied, MIGRATIONS.at(-1)!.number)
  const numbers = new Set(applied.map(({ number }) => number))
  const missing = MIGRATIONS.flatMap(({ number, name }) => (numbers.has(number) ? [] : [{ number, name }]))
  return { schema, applied, missing }
}

async function readApplied(schema: string, settings: Settings): Promise<MigrationState['applied']> {
  const lane = new Lane({ settings, purpose: 'read the migrations', connectMs: CONNECT_MS })
  const run = (text: string, values: unknown[] = []) => lane.query({ name: '', text, values }, DEADLINE_MS)
  try {
    const [table] = await run('SELECT to_regclass($1)', [`"${schema}".migrations`])
    if (table?.[0] == null) return []
    const rows = await run(
      inSchema(
        'SELECT number, name, extract(epoch FROM applied_at) * 1000 FROM :schema.migrations ORDER BY number',
        schema,
      ),
    )
    return rows.map(([number, name, ms]) => ({ number: Number(number), name: name!, appliedAt: new Date(Number(ms)) }))
  } finally {
    await lane.close()
  }
}

function checkKnown(schema: string, applied: MigrationState['applied'], last: number): void {
  const newest = applied.at(-1)?.number ?? 0
  if (newest <= last) return
  throw new HoldfastError(
    'schema_too_new',
    `schema "${schema}" is at migration ${newest}, this version knows up to ${last}: upgrade the package`,
  )
}

export interface MigrationScript {
  readonly schema: string
  readonly migrations: readonly { readonly number: number; readonly name: string }[]
  readonly sql: string
}

// Every statement waits behind a migration that waits for a lock. So it gives up soon; then run the script again.
const BEGIN = `BEGIN;
SET LOCAL lock_timeout = '2s';`
const LOCK = 'LOCK TABLE :schema.migrations IN SHARE ROW EXCLUSIVE MODE;'

// CREATE SCHEMA needs a right on the database even where the schema exists, so it is left out then.
const NEW_SCHEMA = `CREATE SCHEMA IF NOT EXISTS :schema;
CREATE TABLE IF NOT EXISTS :schema.migrations (
  number     integer     NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp());`

/** The migrations as one script for another program to run; `only` has their numbers, null means all. */
export function migrationScript(name: string | undefined, only: ReadonlySet<number> | null): MigrationScript {
  const schema = checkSchema(name ?? 'holdfast')
  const chosen = MIGRATIONS.filter(({ number }) => only?.has(number) ?? true)
  const isNew = chosen[0]?.number === 1
  const parts = chosen.map((migration, index) => {
    const { number, name: title, sql } = migration
    const checksum = createHash('sha256').update(sql).digest('hex')
    const record = `INSERT INTO :schema.migrations (number, name, checksum) VALUES (${number}, '${title}', '${checksum}');`
    const whole = `-- ${String(number).padStart(4, '0')} ${title}\n${sql.trimEnd()}\n${record}`
    // On a table in use an index is built outside a transaction; on a new table that is not needed.
    if (isConcurrent(migration)) return isNew ? inTransaction(whole.replace(' CONCURRENTLY ', ' ')) : whole
    return inTransaction(whole, isNew && index === 0 ? NEW_SCHEMA : '')
  })
  const migrations = chosen.map(({ number, name: title }) => ({ number, name: title }))
  const body = parts.length === 0 ? ['-- nothing is missing'] : parts.map((part) => inSchema(part, schema))
  return { schema, migrations, sql: body.join('\n\n') }
}

function inTransaction(sql: string, before = ''): string {
  const begin = [BEGIN, before, LOCK].filter((part) => part !== '').join('\n')
  return `${begin}\n\n${sql}\n\nCOMMIT;`
}
