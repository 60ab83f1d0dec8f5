// holdfast migrate: brings the schema up to this version and says where it stands.

import type { Command } from 'commander'
import { HoldfastError } from '../../core/errors.js'
import { addExamples, type Cli, writeJson } from '../command.js'
import {
  addStoreOptions,
  atStore,
  type ChosenStore,
  checkExists,
  chooseStore,
  openStore,
  type StoreFlags,
} from '../connection.js'
import { EXIT } from '../exit-codes.js'
import type { MigrationState } from '../migrations.js'

interface MigrateFlags extends StoreFlags {
  readonly check?: boolean
}

export function addMigrate(parent: Command, cli: Cli): void {
  const command = parent
    .command('migrate')
    .summary("bring the store's schema up to date")
    .description(
      'Brings the schema up to this version and lists its migrations. Every process does so by itself when it connects; ' +
        'this is for doing it beforehand, with a role that may.',
    )
    .option('--check', 'change nothing; exit with 7 when a migration is missing')
    .action((flags: MigrateFlags) => migrate(cli, flags))
  addStoreOptions(command, { json: 'print { schema, applied, missing } as JSON' })
  addExamples(command, [
    ['holdfast migrate --url postgres://owner@db/app', 'before the first worker of a new version starts'],
    ['holdfast migrate --check', 'in a deployment: is the schema ready for this version?'],
  ])
}

async function migrate(cli: Cli, flags: MigrateFlags): Promise<void> {
  const store = chooseStore(flags)
  if (store.url === 'memory:') {
    throw new HoldfastError('unsupported', 'the memory store has no schema: name a PostgreSQL store with --url')
  }
  if (flags.check === true) checkExists(store)
  else await (await openStore(store, flags, { upkeep: false })).close()
  // Loaded here, because it brings the driver along, which no other command needs before it connects.
  const { readMigrations } = await import('../migrations.js')
  const state = await atStore(store, () => readMigrations(store, flags))
  print(cli, store, state, flags)
  if (state.missing.length > 0) process.exitCode = EXIT.checkFailed
}

function print(cli: Cli, store: ChosenStore, state: MigrationState, flags: MigrateFlags): void {
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
  else cli.stderr.line(`${where} lacks ${state.missing.length}: run \`holdfast migrate\` without --check`)
}
