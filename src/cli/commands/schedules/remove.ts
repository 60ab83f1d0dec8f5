// holdfast schedules remove: removes a schedule; the jobs it made stay.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addYesOption, type ConfirmFlags, confirm } from '../../confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'

interface RemoveFlags extends StoreFlags, ActorFlags, ConfirmFlags {}

export function addSchedulesRemove(parent: Command, cli: Cli): void {
  const command = parent
    .command('remove')
    .summary('remove a schedule')
    .description('Removes a schedule. The jobs it made stay.')
    .argument('<name>', "the schedule's name")
    .action((name: string, flags: RemoveFlags) => remove(cli, name, flags))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { removed } as JSON' })
  addExamples(command, [
    ['holdfast schedules remove nightly', 'asks first'],
    ['holdfast schedules remove nightly --yes', 'in a script'],
  ])
}

async function remove(cli: Cli, name: string, flags: RemoveFlags): Promise<void> {
  if (!(await confirm(cli, `Remove schedule ${name}?`, flags))) return
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await holdfast.unschedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { removed: name })
    else cli.stderr.line(`schedule ${name} is removed`)
  })
}
