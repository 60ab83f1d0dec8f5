// holdfast migrate roles: a script that makes roles with no more rights than they need.

import type { Command } from 'commander'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags } from '../../connection.js'

interface RolesFlags extends StoreFlags {
  readonly prefix: string
}

export function addMigrateRoles(parent: Command, cli: Cli): void {
  const command = parent
    .command('roles')
    .summary('print roles and their rights as SQL')
    .description(
      'Prints a script that makes five roles and gives each exactly its rights: owner, producer, worker, operator, ' +
        'viewer. It is for the administrator of the database to read and run, again after each migration. Needs no store.',
    )
    .option('--prefix <name>', 'what the names of the roles begin with', 'holdfast')
    .action((flags: RolesFlags) => roles(cli, flags))
  addStoreOptions(command, { json: 'print { schema, roles, sql } as JSON' })
  addExamples(command, [
    ['holdfast migrate roles | psql postgres://admin@db/app', 'holdfast_owner, holdfast_producer and so on'],
    ['holdfast migrate roles --schema mail --prefix mail > roles.sql', 'for a queue of its own'],
  ])
}

async function roles(cli: Cli, flags: RolesFlags): Promise<void> {
  const { rolesScript } = await import('../../../stores/postgres/roles.js')
  const script = rolesScript({ schema: flags.schema ?? 'holdfast', prefix: flags.prefix })
  if (flags.json === true) writeJson(cli, script)
  else cli.stdout.line(script.sql)
}
