// holdfast migrate: brings the schema up to date, and shows which migrations it has.

import type { Command } from 'commander'
import { HoldfastError } from '../../core/errors.js'
import { addExamples, type Cli, HELP_SUMMARY } from '../command.js'
import { EXIT } from '../exit-codes.js'
import {
  addStoreOptions,
  atStore,
  type ChosenStore,
  checkExists,
  chooseStore,
  openStore,
  type StoreFlags,
} from '../input/connection.js'
import type { MigrationState } from '../migrations.js'
import { writeJson } from '../output/json.js'

const STATE_JSON = { json: 'print { schema, applied, missing } as JSON' }

interface MigrateFlags extends StoreFlags {
  readonly check?: boolean
}

export function addMigrate(parent: Command, cli: Cli): void {
  const command = parent
    .command('migrate')
    .summary("bring the store's schema up to date")
    .description(
      'Brings the schema up to this version and lists its migrations. worker, server, dev and the library do so too when they connect; ' +
        'this is for doing it before, with a role that may. Migrations only add, so there is no way back: an older version ' +
        'refuses a schema that is newer than itself.',
    )
    .helpCommand('help [command]', HELP_SUMMARY)
    .option('--check', 'the same as `migrate status`')
    .action((flags: MigrateFlags) => (flags.check === true ? status(cli, flags) : up(cli, flags)))
  addStoreOptions(command, STATE_JSON)
  for (const add of [addUp, addStatus, addSql, addRoles]) add(command, cli)
  addExamples(command, [
    ['holdfast migrate --url postgres://owner@db/app', 'before the first worker of a new version starts'],
    ['holdfast migrate --check', 'in a deployment: is the schema ready for this version?'],
    ['holdfast migrate sql > holdfast.sql', 'to apply it with another program'],
    ['holdfast migrate roles | psql postgres://admin@db/app', 'roles with no more rights than they need'],
  ])
}

function addUp(parent: Command, cli: Cli): void {
  const command = parent
    .command('up')
    .summary('apply the missing migrations')
    .description('Applies the missing migrations and lists all of them.')
    .action((flags: StoreFlags) => up(cli, flags))
  addStoreOptions(command, STATE_JSON)
  addExamples(command, [['holdfast migrate up --url postgres://owner@db/app', 'with the role that owns the schema']])
}

async function up(cli: Cli, flags: StoreFlags): Promise<void> {
  const store = choosePostgres(flags)
  await (await openStore(store, flags, { upkeep: false })).close()
  await status(cli, flags)
}

function addStatus(parent: Command, cli: Cli): void {
  const command = parent
    .command('status')
    .summary('list the migrations; exit with 7 when one is missing')
    .description('Lists the migrations of the schema and changes nothing. Exits with 7 when one is missing.')
    .action((flags: StoreFlags) => status(cli, flags))
  addStoreOptions(command, STATE_JSON)
  addExamples(command, [['holdfast migrate status', 'in a deployment: is the schema ready for this version?']])
}

async function status(cli: Cli, flags: StoreFlags): Promise<void> {
  const store = choosePostgres(flags)
  const state = await readState(store, flags)
  if (flags.json === true) writeJson(cli, state)
  else print(cli, store, state)
  if (state.missing.length > 0) process.exitCode = EXIT.checkFailed
}

/** The PostgreSQL store that is meant; other stores have no schema. */
function choosePostgres(flags: StoreFlags): ChosenStore {
  const store = chooseStore(flags)
  if (store.url !== 'memory:') return store
  throw new HoldfastError('unsupported', 'the memory store has no schema: name a PostgreSQL store with --url')
}

async function readState(store: ChosenStore, flags: StoreFlags): Promise<MigrationState> {
  checkExists(store)
  // Imported here: it loads the driver, which most commands do not need before they connect.
  const { atServer, readMigrations } = await import('../migrations.js')
  return atStore(store, () => atServer(store, (settings) => readMigrations(settings, flags)))
}

function print({ stdout, stderr }: Cli, store: ChosenStore, { schema, applied, missing }: MigrationState): void {
  const label = (number: number) => String(number).padStart(4, '0')
  const width = Math.max(0, ...[...applied, ...missing].map(({ name }) => name.length))
  for (const { number, name, appliedAt } of applied) {
    stdout.line(`${label(number)}  ${name.padEnd(width)}  applied ${appliedAt.toISOString()}`)
  }
  for (const { number, name } of missing) {
    stdout.line(stdout.style('yellow', `${label(number)}  ${name.padEnd(width)}  missing`))
  }
  const where = `schema "${schema}" at ${store.shown}`
  if (missing.length === 0) stderr.line(`${where} is up to date`)
  else stderr.line(`${where} lacks ${missing.length}: run \`holdfast migrate up\``)
}

interface SqlFlags extends StoreFlags {
  readonly missing?: boolean
}

function addSql(parent: Command, cli: Cli): void {
  const command = parent
    .command('sql')
    .summary('print the migrations as SQL')
    .description(
      'Prints a script that makes the schema of this version and records each migration. It needs no store, except with ' +
        '--missing.',
    )
    .option('--missing', 'only the migrations that the schema does not have')
    .action((flags: SqlFlags) => sql(cli, flags))
  addStoreOptions(command, { json: 'print { schema, migrations, sql } as JSON' })
  addExamples(command, [
    ['holdfast migrate sql --schema jobs | psql postgres://owner@db/app', 'a new schema'],
    ['holdfast migrate sql --missing > upgrade.sql', 'only what is new'],
  ])
}

async function sql(cli: Cli, flags: SqlFlags): Promise<void> {
  const { migrationScript } = await import('../migrations.js')
  const state = flags.missing === true ? await readState(choosePostgres(flags), flags) : null
  const script = migrationScript(flags.schema, state && new Set(state.missing.map(({ number }) => number)))
  if (flags.json === true) writeJson(cli, script)
  else cli.stdout.line(script.sql)
}

interface RolesFlags extends StoreFlags {
  readonly prefix: string
}

function addRoles(parent: Command, cli: Cli): void {
  const command = parent
    .command('roles')
    .summary('print roles and their rights as SQL')
    .description(
      'Prints a script that makes five roles with exactly the rights they need: owner, producer, worker, operator, ' +
        'viewer. The administrator of the database reads and runs it, again after each migration. It needs no store.',
    )
    .option('--prefix <name>', 'how the names of the roles begin', 'holdfast')
    .action((flags: RolesFlags) => roles(cli, flags))
  addStoreOptions(command, { json: 'print { schema, roles, sql } as JSON' })
  addExamples(command, [
    ['holdfast migrate roles | psql postgres://admin@db/app', 'holdfast_owner, holdfast_producer and so on'],
    ['holdfast migrate roles --schema mail --prefix mail > roles.sql', 'for another schema'],
  ])
}

async function roles(cli: Cli, flags: RolesFlags): Promise<void> {
  const { rolesScript } = await import('../../stores/postgres/roles.js')
  const script = rolesScript({ schema: flags.schema ?? 'holdfast', prefix: flags.prefix })
  if (flags.json === true) writeJson(cli, script)
  else cli.stdout.line(script.sql)
}
