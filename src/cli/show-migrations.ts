// What the commands of `migrate` share: reading where the schema stands and saying it.

import { HoldfastError } from '../core/errors.js'
import { type Cli, writeJson } from './command.js'
import { atStore, type ChosenStore, checkExists, chooseStore, openStore, type StoreFlags } from './connection.js'
import { EXIT } from './exit-codes.js'
import type { MigrationState } from './migrations.js'

/** The PostgreSQL store that is meant; other kinds have no schema. */
export function choosePostgres(flags: StoreFlags): ChosenStore {
  const store = chooseStore(flags)
  if (store.url !== 'memory:') return store
  throw new HoldfastError('unsupported', 'the memory store has no schema: name a PostgreSQL store with --url')
}

/** Applies what is missing, and says where the schema stands. */
export async function migrateUp(cli: Cli, flags: StoreFlags): Promise<void> {
  const store = choosePostgres(flags)
  await (await openStore(store, flags, { upkeep: false })).close()
  await showMigrations(cli, flags)
}

/** Says where the schema stands; the exit code is 7 when a migration is missing. */
export async function showMigrations(cli: Cli, flags: StoreFlags): Promise<void> {
  const store = choosePostgres(flags)
  checkExists(store)
  const state = await readState(store, flags)
  print(cli, store, state, flags)
  if (state.missing.length > 0) process.exitCode = EXIT.checkFailed
}

/** Where the schema stands. */
export async function readState(store: ChosenStore, flags: StoreFlags): Promise<MigrationState> {
  // Loaded here, because it brings the driver along, which no other command needs before it connects.
  const { atServer, readMigrations } = await import('./migrations.js')
  return atStore(store, () => atServer(store, (settings) => readMigrations(settings, flags)))
}

function print(cli: Cli, store: ChosenStore, state: MigrationState, flags: StoreFlags): void {
  if (flags.json === true) {
    writeJson(cli, state)
    return
  }
  for (const { number, name, appliedAt } of state.applied) {
    cli.stdout.line(`${String(number).padStart(4, '0')}  ${name}  applied ${appliedAt.toISOString()}`)
  }
  for (const { number, name } of state.missing) {
    cli.stdout.line(cli.stdout.style('yellow', `${String(number).padStart(4, '0')}  ${name}  missing`))
  }
  const where = `schema "${state.schema}" at ${store.shown}`
  if (state.missing.length === 0) cli.stderr.line(`${where} is up to date`)
  else cli.stderr.line(`${where} lacks ${state.missing.length}: run \`holdfast migrate up\``)
}
