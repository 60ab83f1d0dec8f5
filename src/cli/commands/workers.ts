// holdfast workers: which workers are running, and what they run.

import type { Command } from 'commander'
import { addExamples, addGroup, type Cli } from '../command.js'
import { addStoreOptions, withStore } from '../input/connection.js'
import { WORKER_COLUMNS } from '../output/columns.js'
import { addTableOptions, type ListFlags, printListing } from '../output/table.js'

export function addWorkers(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'workers',
    summary: 'look at workers',
    description: 'Look at the workers of every process.',
    examples: [['holdfast workers list', 'which are running, and what they run']],
    commands: [addList],
  })
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list workers')
    .description(
      'Lists the workers of every process: their slots, queues and jobs, and when each was last seen. A worker is silent ' +
        'when it was not seen for 35 s.',
    )
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { workers } as JSON' })
  addTableOptions(command, WORKER_COLUMNS)
  addExamples(command, [
    ['holdfast workers list', 'which are running'],
    ["holdfast workers list --json | jq '[.workers[].concurrency] | add'", 'how many slots they have'],
  ])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.workers()
    const empty = 'no worker is running: start one with `holdfast worker ./jobs.js`'
    printListing(cli, flags, { name: 'workers', rows, columns: WORKER_COLUMNS, empty })
  })
}
