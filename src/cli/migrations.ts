// Reading which migrations a schema has, on a connection of its own, without changing anything.

import { HoldfastError } from '../core/errors.js'
import { openEmbedded } from '../stores/postgres/embedded/server.js'
import { type ConnectionSettings, Lane } from '../stores/postgres/lane.js'
import { MIGRATIONS } from '../stores/postgres/migrations/index.js'
import { checkSchema, inSchema } from '../stores/postgres/statement.js'
import type { ChosenStore, StoreFlags } from './connection.js'

export interface MigrationState {
  readonly schema: string
  readonly applied: readonly { readonly number: number; readonly name: string; readonly appliedAt: Date }[]
  /** Those this version knows and the schema does not have. */
  readonly missing: readonly { readonly number: number; readonly name: string }[]
}

/** How to connect to a server. */
export type Settings = () => Promise<ConnectionSettings>

const CONNECT_MS = 10_000
const DEADLINE_MS = 10_000

/** Runs something with the server of a PostgreSQL store at hand, started for it where the store is embedded. */
export async function atServer<T>({ folder, url }: ChosenStore, run: (settings: Settings) => Promise<T>): Promise<T> {
  if (folder === null) return run(async () => ({ connectionString: url }))
  const server = await openEmbedded(folder)
  try {
    return await run(() => server.ensureRunning())
  } finally {
    await server.close()
  }
}

/** Reads the state of a store's schema; raises `schema_too_new` when it has migrations this version does not know. */
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
