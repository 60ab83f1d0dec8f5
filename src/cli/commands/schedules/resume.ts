// holdfast schedules resume: lets a paused schedule fire again.

import type { Command } from 'commander'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'

interface ResumeFlags extends StoreFlags, ActorFlags {}

export function addSchedulesResume(parent: Command, cli: Cli): void {
  const command = parent
    .command('resume')
    .summary('let a paused schedule fire again')
    .description('Resumes a schedule, from its next time on: what fell into the pause is not made up for.')
    .argument('<name>', "the schedule's name")
    .action((name: string, flags: ResumeFlags) => resume(cli, name, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { schedule, paused } as JSON' })
  addExamples(command, [['holdfast schedules resume nightly', 'from its next time on']])
}

async function resume(cli: Cli, name: string, flags: ResumeFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await holdfast.resumeSchedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { schedule: name, paused: false })
    else cli.stderr.line(`schedule ${name} is resumed`)
  })
}
