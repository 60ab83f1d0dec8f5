// holdfast jobs cancel: stops jobs, by id or by filter.

import type { Command } from 'commander'
import { type ActFlags, actOnJobs, addActOptions } from '../../act-on-jobs.js'
import { addExamples, type Cli } from '../../command.js'

export function addJobsCancel(parent: Command, cli: Cli): void {
  const command = parent
    .command('cancel')
    .summary('cancel jobs')
    .description(
      'Cancels jobs: at once while they wait; of those that run the worker is told. Prints the ids of those it was done ' +
        'to, or of a filter the id of the bulk action.',
    )
    .action((ids: readonly string[], flags: ActFlags) =>
      actOnJobs(
        cli,
        {
          action: 'cancel',
          past: 'cancelled',
          one: async (holdfast, id, by) => ({ result: (await holdfast.cancel(id, by)).result }),
        },
        ids,
        flags,
      ),
    )
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs cancel 3e8a74', 'one'],
    ["holdfast jobs cancel --filter 'queue:mail tag:campaign-7' --dry-run", 'how many would it be?'],
    ["holdfast jobs cancel --filter 'queue:mail tag:campaign-7' --yes", 'do it, in a script'],
  ])
}
