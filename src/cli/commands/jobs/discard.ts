// holdfast jobs discard: takes dead jobs out of the dead-letter queue.

import type { Command } from 'commander'
import { type ActFlags, actOnJobs, addActOptions } from '../../act-on-jobs.js'
import { addExamples, type Cli } from '../../command.js'

export function addJobsDiscard(parent: Command, cli: Cli): void {
  const command = parent
    .command('discard')
    .summary('take dead jobs out of the dead-letter queue')
    .description(
      'Discards dead jobs: they become cancelled, and are pruned after their retention. Prints the ids of those it was ' +
        'done to, or of a filter the id of the bulk action.',
    )
    .action((ids: readonly string[], flags: ActFlags) =>
      actOnJobs(
        cli,
        {
          action: 'discard',
          past: 'discarded',
          only: { states: ['dead'] },
          one: async (holdfast, id, by) => {
            await holdfast.discard(id, by)
            return { result: 'discarded' }
          },
        },
        ids,
        flags,
      ),
    )
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs discard 3e8a74', 'one'],
    ["holdfast jobs discard --filter 'state:dead finished:>30d' --dry-run", 'how many are that old?'],
  ])
}
