// holdfast schedules pause: stops a schedule from firing.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'

interface PauseFlags extends StoreFlags, ActorFlags {}

export function addSchedulesPause(parent: Command, cli: Cli): void {
  const command = parent
    .command('pause')
    .summary('stop a schedule from firing')
    .description('Pauses a schedule: it fires no more until it is resumed.')
    .argument('<name>', "the schedule's name")
    .action((name: string, flags: PauseFlags) => pause(cli, name, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { schedule, paused } as JSON' })
  addExamples(command, [['holdfast schedules pause nightly', 'no more jobs by itself']])
}

async function pause(cli: Cli, name: string, flags: PauseFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await holdfast.pauseSchedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { schedule: name, paused: true })
    else cli.stderr.line(`schedule ${name} is paused`)
  })
}
