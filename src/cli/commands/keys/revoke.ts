// holdfast keys revoke: ends an API key at once.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addYesOption, type ConfirmFlags, confirm } from '../../confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'

interface RevokeFlags extends StoreFlags, ActorFlags, ConfirmFlags {}

export function addKeysRevoke(parent: Command, cli: Cli): void {
  const command = parent
    .command('revoke')
    .summary('end an API key')
    .description('Ends an API key at once and for good.')
    .argument('<id>', 'as `holdfast keys list` shows it')
    .action((id: string, flags: RevokeFlags) => revoke(cli, id, flags))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { key } as JSON' })
  addExamples(command, [
    ['holdfast keys revoke 5b1f6c3e8a74', 'asks first'],
    ['holdfast keys revoke 5b1f6c3e8a74 --yes', 'in a script'],
  ])
}

async function revoke(cli: Cli, id: string, flags: RevokeFlags): Promise<void> {
  if (!(await confirm(cli, `Revoke key ${id}, for good?`, flags))) return
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const key = await holdfast.revokeKey(id, byOption(flags))
    if (flags.json === true) writeJson(cli, { key })
    else cli.stderr.line(`key ${key.id} (${key.name}) is revoked`)
  })
}
