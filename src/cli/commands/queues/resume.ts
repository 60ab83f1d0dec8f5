// holdfast queues resume: lets paused queues give jobs again.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { demandQueues } from '../../find-queue.js'

interface ResumeFlags extends StoreFlags, ActorFlags {}

export function addQueuesResume(parent: Command, cli: Cli): void {
  const command = parent
    .command('resume')
    .summary('let a paused queue give jobs again')
    .description('Resumes queues that were paused.')
    .argument('<queues...>', 'their names')
    .action((queues: readonly string[], flags: ResumeFlags) => resume(cli, queues, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { queues } as JSON' })
  addExamples(command, [['holdfast queues resume mail', 'its jobs are claimed again']])
}

async function resume(cli: Cli, queues: readonly string[], flags: ResumeFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await demandQueues(holdfast, queues)
    for (const queue of queues) {
      await holdfast.resume(queue, byOption(flags))
      if (flags.json !== true) cli.stderr.line(`queue ${queue} is resumed`)
    }
    if (flags.json === true) writeJson(cli, { queues: queues.map((name) => ({ name, paused: false })) })
  })
}
