// holdfast queues remove: forgets queues that have no jobs left.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { demandQueues } from '../../find-queue.js'

interface RemoveFlags extends StoreFlags, ActorFlags {}

export function addQueuesRemove(parent: Command, cli: Cli): void {
  const command = parent
    .command('remove')
    .summary('remove a queue that has no jobs left')
    .description(
      'Removes queues with their settings. Refused while a queue has jobs that are unfinished or dead. Whoever enqueues to one makes it anew.',
    )
    .argument('<queues...>', 'their names')
    .action((queues: readonly string[], flags: RemoveFlags) => remove(cli, queues, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { removed } as JSON' })
  addExamples(command, [['holdfast queues remove mail', 'it is no longer listed']])
}

async function remove(cli: Cli, queues: readonly string[], flags: RemoveFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await demandQueues(holdfast, queues)
    for (const queue of queues) {
      await holdfast.removeQueue(queue, byOption(flags))
      if (flags.json !== true) cli.stderr.line(`queue ${queue} is removed`)
    }
    if (flags.json === true) writeJson(cli, { removed: queues })
  })
}
