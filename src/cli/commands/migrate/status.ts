// holdfast migrate status: where the schema stands.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, type StoreFlags } from '../../connection.js'
import { showMigrations } from '../../show-migrations.js'

export function addMigrateStatus(parent: Command, cli: Cli): void {
  const command = parent
    .command('status')
    .summary('list the migrations; exit with 7 when one is missing')
    .description('Lists the migrations of the schema and changes nothing. Exits with 7 when one is missing.')
    .action((flags: StoreFlags) => showMigrations(cli, flags))
  addStoreOptions(command, { json: 'print { schema, applied, missing } as JSON' })
  addExamples(command, [['holdfast migrate status', 'in a deployment: is the schema ready for this version?']])
}
