// holdfast bulk cancel: ends a bulk action; what it has done stays done.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { EXIT } from '../../exit-codes.js'
import { findBulkId } from '../../find-bulk.js'

interface CancelFlags extends StoreFlags, ActorFlags {}

export function addBulkCancel(parent: Command, cli: Cli): void {
  const command = parent
    .command('cancel')
    .summary('end a bulk action')
    .description('Ends a bulk action. What it has done stays done. Exits with 5 when it was over already.')
    .argument('<id>', 'its id, or the end of it')
    .action((id: string, flags: CancelFlags) => cancel(cli, id, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { bulk } as JSON' })
  addExamples(command, [['holdfast bulk cancel 3e8a74', 'no further batch']])
}

async function cancel(cli: Cli, typed: string, flags: CancelFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findBulkId(holdfast, typed)
    const bulk = await holdfast.cancelBulk(id, byOption(flags))
    if (flags.json === true) writeJson(cli, { bulk })
    else cli.stderr.line(`${id} is ${bulk.state}; it was done to ${bulk.done.toLocaleString('en')} jobs`)
    if (bulk.state !== 'cancelled') process.exitCode = EXIT.conflict
  })
}
