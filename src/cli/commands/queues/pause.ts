// holdfast queues pause: stops queues from giving jobs.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { addCreateOption, type CreateFlags, demandQueues } from '../../find-queue.js'

interface PauseFlags extends StoreFlags, ActorFlags, CreateFlags {}

export function addQueuesPause(parent: Command, cli: Cli): void {
  const command = parent
    .command('pause')
    .summary('stop a queue from giving jobs')
    .description(
      'Pauses queues: they go on taking jobs and give none, in every process, until they are resumed. What runs already runs on.',
    )
    .argument('<queues...>', 'their names')
    .action((queues: readonly string[], flags: PauseFlags) => pause(cli, queues, flags))
  addByOption(command)
  addCreateOption(command)
  addStoreOptions(command, { json: 'print { queues } as JSON' })
  addExamples(command, [
    ['holdfast queues pause mail', 'nobody claims from it'],
    ['holdfast queues pause import --create', 'before its first job'],
  ])
}

async function pause(cli: Cli, queues: readonly string[], flags: PauseFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await demandQueues(holdfast, queues, flags)
    for (const queue of queues) {
      await holdfast.pause(queue, byOption(flags))
      if (flags.json !== true) cli.stderr.line(`queue ${queue} is paused`)
    }
    if (flags.json === true) writeJson(cli, { queues: queues.map((name) => ({ name, paused: true })) })
  })
}
