// holdfast schedules run: makes a schedule's job now.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'

interface RunFlags extends StoreFlags, ActorFlags {}

export function addSchedulesRun(parent: Command, cli: Cli): void {
  const command = parent
    .command('run')
    .summary("enqueue a schedule's job now")
    .description("Enqueues a schedule's job now and prints its id. The schedule goes on as before.")
    .argument('<name>', "the schedule's name")
    .action((name: string, flags: RunFlags) => run(cli, name, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { id, created, state } as JSON' })
  addExamples(command, [
    ['holdfast schedules run nightly', 'do not wait for the night'],
    ['holdfast jobs tail "$(holdfast schedules run nightly)"', 'and watch it'],
  ])
}

async function run(cli: Cli, name: string, flags: RunFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const result = await holdfast.runSchedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, result)
    else cli.stdout.line(result.id)
  })
}
