// holdfast migrate up: applies the migrations that are missing.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, type StoreFlags } from '../../connection.js'
import { migrateUp } from '../../show-migrations.js'

export function addMigrateUp(parent: Command, cli: Cli): void {
  const command = parent
    .command('up')
    .summary('apply the migrations that are missing')
    .description('Applies the migrations that are missing, in one transaction, and lists them all.')
    .action((flags: StoreFlags) => migrateUp(cli, flags))
  addStoreOptions(command, { json: 'print { schema, applied, missing } as JSON' })
  addExamples(command, [['holdfast migrate up --url postgres://owner@db/app', 'with the role that owns the schema']])
}
