// holdfast bulk show: one bulk action, and with --wait its progress to the end.

import type { Command } from 'commander'
import type { BulkView } from '../../../core/operating.js'
import { BULK_COLUMNS, BULK_FORMAT } from '../../bulk-columns.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { EXIT } from '../../exit-codes.js'
import { findBulkId } from '../../find-bulk.js'
import { exitCodeOfBulk, followBulk, getBulk, isOver } from '../../follow-bulk.js'
import { visible } from '../../terminal.js'

interface ShowFlags extends StoreFlags {
  readonly wait?: boolean
}

export function addBulkShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one bulk action')
    .description('Shows how far a bulk action has come.')
    .argument('<id>', 'its id, or the end of it')
    .option('--wait', 'follow it to its end; exits with 6 when jobs were refused, 5 when it was cancelled')
    .action((id: string, flags: ShowFlags) => show(cli, id, flags))
  addStoreOptions(command, { json: 'print { bulk } as JSON' })
  addExamples(command, [
    ['holdfast bulk show 3e8a74', 'where it stands'],
    ['holdfast bulk show 3e8a74 --wait', 'until it is done'],
  ])
}

async function show(cli: Cli, typed: string, flags: ShowFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findBulkId(holdfast, typed)
    await getBulk(holdfast, id)
    const bulk = flags.wait === true ? await followBulk(cli, holdfast, id, flags) : await getBulk(holdfast, id)
    if (flags.json === true) writeJson(cli, { bulk })
    else print(cli, bulk)
    if (flags.wait === true) process.exitCode = isOver(bulk) ? exitCodeOfBulk(bulk) : EXIT.interrupted
  })
}

function print({ stdout }: Cli, bulk: BulkView): void {
  for (const { name, text } of BULK_COLUMNS) {
    const value = visible(text(bulk, { isShort: false }))
    const shown = name === 'state' ? stdout.style(BULK_FORMAT[bulk.state], value) : value
    stdout.line(`${stdout.style('dim', name.padEnd(9))} ${shown}`)
  }
}
