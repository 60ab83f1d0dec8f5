// holdfast jobs requeue: revives dead jobs, by id or by filter.

import type { Command } from 'commander'
import { type ActFlags, actOnJobs, addActOptions } from '../../act-on-jobs.js'
import { addExamples, type Cli } from '../../command.js'
import { REQUEUE } from '../../requeue.js'

export function addJobsRequeue(parent: Command, cli: Cli): void {
  const command = parent
    .command('requeue')
    .alias('retry')
    .summary('revive dead jobs')
    .description(
      'Revives dead jobs: their attempts start again at 0 and their idempotency keys are taken again. Prints the ids of ' +
        'those it was done to, or of a filter the id of the bulk action.',
    )
    .action((ids: readonly string[], flags: ActFlags) => actOnJobs(cli, REQUEUE, ids, flags))
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs requeue 3e8a74 9c01fe', 'two'],
    [`holdfast jobs requeue --filter 'type:send_* error:"HTTP 503"' --dry-run`, 'how many would it be?'],
    ["holdfast jobs requeue --filter 'queue:mail' --per-second 50 --yes", 'gently'],
  ])
}
