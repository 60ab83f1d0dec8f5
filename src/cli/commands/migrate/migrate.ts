// holdfast migrate: brings the schema up to this version and says where it stands, one file for each of its commands.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, type StoreFlags } from '../../connection.js'
import { migrateUp, showMigrations } from '../../show-migrations.js'
import { addMigrateRoles } from './roles.js'
import { addMigrateSql } from './sql.js'
import { addMigrateStatus } from './status.js'
import { addMigrateUp } from './up.js'

interface MigrateFlags extends StoreFlags {
  readonly check?: boolean
}

export function addMigrate(parent: Command, cli: Cli): void {
  const command = parent
    .command('migrate')
    .summary("bring the store's schema up to date")
    .description(
      'Brings the schema up to this version and lists its migrations. Every process does so by itself when it connects; ' +
        'this is for doing it beforehand, with a role that may. Migrations only add, so there is no way down: an older ' +
        'version refuses a schema that is newer than itself.',
    )
    .option('--check', 'the same as `migrate status`')
    .action((flags: MigrateFlags) => (flags.check === true ? showMigrations(cli, flags) : migrateUp(cli, flags)))
  addStoreOptions(command, { json: 'print { schema, applied, missing } as JSON' })
  for (const add of [addMigrateUp, addMigrateStatus, addMigrateSql, addMigrateRoles]) add(command, cli)
  addExamples(command, [
    ['holdfast migrate --url postgres://owner@db/app', 'before the first worker of a new version starts'],
    ['holdfast migrate --check', 'in a deployment: is the schema ready for this version?'],
    ['holdfast migrate sql > holdfast.sql', 'for those who apply it themselves'],
    ['holdfast migrate roles | psql postgres://admin@db/app', 'roles with no more rights than they need'],
  ])
}
