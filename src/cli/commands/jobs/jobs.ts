// holdfast jobs: looking at jobs and changing them, one file for each of its commands.

import type { Command } from 'commander'
import type { AddCommand, Cli } from '../../command.js'
import { addJobsShow } from './show.js'

const COMMANDS: readonly AddCommand[] = [addJobsShow]

export function addJobs(parent: Command, cli: Cli): void {
  const group = parent.command('jobs').summary('look at jobs').description('Looks at jobs.')
  for (const add of COMMANDS) add(group, cli)
}
