// holdfast schedules: jobs by the clock, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addSchedulesAdd } from './add.js'
import { addSchedulesList } from './list.js'
import { addSchedulesNext } from './next.js'
import { addSchedulesPause } from './pause.js'
import { addSchedulesRemove } from './remove.js'
import { addSchedulesResume } from './resume.js'
import { addSchedulesRun } from './run.js'

export function addSchedules(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'schedules',
    summary: 'look at schedules and change them',
    description: 'Schedules: jobs that a cron expression enqueues.',
    examples: [
      ["holdfast schedules add nightly '0 3 * * *' report --zone Europe/Berlin", 'every night at three'],
      ['holdfast schedules next nightly', 'when is that?'],
    ],
    commands: [
      ...[addSchedulesList, addSchedulesNext, addSchedulesAdd],
      ...[addSchedulesPause, addSchedulesResume, addSchedulesRun, addSchedulesRemove],
    ],
  })
}
