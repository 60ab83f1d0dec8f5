// holdfast bulk list: the newest bulk actions.

import type { Command } from 'commander'
import { wholeNumber } from '../../arguments.js'
import { BULK_COLUMNS } from '../../bulk-columns.js'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { addTableOptions, type ListFlags, printListing } from '../../table.js'

interface BulkListFlags extends ListFlags {
  readonly limit: number
}

export function addBulkList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list bulk actions')
    .description('Lists the newest bulk actions and how far they have come.')
    .option('--limit <number>', 'the most, up to 200', wholeNumber, 20)
    .action((flags: BulkListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { bulks } as JSON' })
  addTableOptions(command, BULK_COLUMNS)
  addExamples(command, [['holdfast bulk list', 'the newest']])
}

async function list(cli: Cli, flags: BulkListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.bulks({ limit: flags.limit })
    printListing(cli, flags, { name: 'bulks', rows, columns: BULK_COLUMNS, empty: 'there is no bulk action' })
  })
}
