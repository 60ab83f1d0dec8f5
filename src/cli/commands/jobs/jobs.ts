// holdfast jobs: looking at jobs and changing them, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addJobsCancel } from './cancel.js'
import { addJobsDiscard } from './discard.js'
import { addJobsEdit } from './edit.js'
import { addJobsExplain } from './explain.js'
import { addJobsList } from './list.js'
import { addJobsRequeue } from './requeue.js'
import { addJobsShow } from './show.js'
import { addJobsTail } from './tail.js'

export function addJobs(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'jobs',
    summary: 'look at jobs and change them',
    description: 'Looks at jobs and changes them, by id or by filter.',
    examples: [
      ['holdfast jobs list --filter "state:dead created:<1d"', 'what died since yesterday'],
      ['holdfast jobs explain 3e8a74', 'why is this one not running?'],
    ],
    commands: [
      ...[addJobsList, addJobsShow, addJobsExplain, addJobsTail],
      ...[addJobsCancel, addJobsRequeue, addJobsDiscard, addJobsEdit],
    ],
  })
}
