// holdfast migrate sql: the migrations as SQL, for those who apply it themselves.

import { type Command, Option } from 'commander'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, checkExists, type StoreFlags } from '../../connection.js'
import { choosePostgres, readState } from '../../show-migrations.js'

interface SqlFlags extends StoreFlags {
  readonly missing?: boolean
}

export function addMigrateSql(parent: Command, cli: Cli): void {
  const command = parent
    .command('sql')
    .summary('print the migrations as SQL')
    .description(
      'Prints a script that makes the schema as this version wants it, in one transaction, the record of what was ' +
        'applied included. Needs no store, but with --missing.',
    )
    .addOption(new Option('--missing', 'only what the schema does not have'))
    .action((flags: SqlFlags) => sql(cli, flags))
  addStoreOptions(command, { json: 'print { schema, migrations } as JSON' })
  addExamples(command, [
    ['holdfast migrate sql --schema jobs | psql postgres://owner@db/app', 'a new schema'],
    ['holdfast migrate sql --missing > upgrade.sql', 'from where it stands'],
  ])
}

async function sql(cli: Cli, flags: SqlFlags): Promise<void> {
  const { migrationScript } = await import('../../migration-script.js')
  const missing = flags.missing === true ? await readMissing(flags) : null
  const script = migrationScript(flags.schema, missing)
  if (flags.json === true) writeJson(cli, script)
  else cli.stdout.line(script.sql)
}

async function readMissing(flags: SqlFlags): Promise<ReadonlySet<number>> {
  const store = choosePostgres(flags)
  checkExists(store)
  return new Set((await readState(store, flags)).missing.map(({ number }) => number))
}
