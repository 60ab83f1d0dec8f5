// holdfast queues list: every queue at a glance.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { isForsaken, QUEUE_COLUMNS } from '../../queue-columns.js'
import { addTableOptions, type ListFlags, printListing } from '../../table.js'

export function addQueuesList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list queues')
    .description(
      'Lists every queue: how many jobs stand where, how long the oldest ready one has waited, how many live workers ' +
        'serve it, and what came in, was done and failed each second of the last minute.',
    )
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { queues, isExact, nowMs } as JSON' })
  addTableOptions(command, QUEUE_COLUMNS)
  addExamples(command, [
    ['holdfast queues list', 'every queue'],
    ['holdfast queues list --columns queue,ready,oldest --no-header', 'for a script'],
  ])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { queues, isExact, nowMs } = await holdfast.overview()
    const empty = 'no queue has ever had a job here: try `holdfast enqueue`'
    printListing(cli, flags, { name: 'queues', rows: queues, columns: QUEUE_COLUMNS, more: { isExact, nowMs }, empty })
    if (flags.json === true || flags.jsonl === true) return
    if (!isExact) cli.stderr.line('large counts are estimates')
    for (const { name } of queues.filter(isForsaken)) {
      cli.stderr.line(`${cli.stderr.style('yellow', 'warning:')} queue ${name} has ready jobs and no live worker`)
    }
  })
}
