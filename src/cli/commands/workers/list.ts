// holdfast workers list: who lives, and what they run.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { addTableOptions, type ListFlags, printListing } from '../../table.js'
import { WORKER_COLUMNS } from '../../worker-columns.js'

export function addWorkersList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list workers')
    .description(
      'Lists the workers of every process: their slots, queues and jobs, and when each was last seen. One that is silent ' +
        'was not seen for 35 s.',
    )
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { workers } as JSON' })
  addTableOptions(command, WORKER_COLUMNS)
  addExamples(command, [
    ['holdfast workers list', 'who lives'],
    ["holdfast workers list --json | jq '[.workers[].concurrency] | add'", 'how many slots there are'],
  ])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.workers()
    const empty = 'no worker lives: start one with `holdfast worker ./jobs.js`'
    printListing(cli, flags, { name: 'workers', rows, columns: WORKER_COLUMNS, empty })
  })
}
