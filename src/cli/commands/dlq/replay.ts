// holdfast dlq replay: revives dead jobs, by id, by filter or by what killed them.

import type { Command } from 'commander'
import { type ActFlags, actOnJobs, addActOptions } from '../../act-on-jobs.js'
import { addExamples, type Cli } from '../../command.js'
import { REQUEUE } from '../../requeue.js'

interface ReplayFlags extends ActFlags {
  readonly group?: string
}

export function addDlqReplay(parent: Command, cli: Cli): void {
  const command = parent
    .command('replay')
    .alias('requeue')
    .summary('revive dead jobs')
    .description(
      'Revives dead jobs: their attempts start again at 0. Those that match a filter are revived by one bulk action, ' +
        'which goes on when this command is left. Prints the ids of the jobs, or the id of the bulk action.',
    )
    .option('--group <fingerprint>', 'those that died of one thing, see `holdfast dlq groups`')
    .action((ids: readonly string[], flags: ReplayFlags) => actOnJobs(cli, REQUEUE, ids, withGroup(flags)))
  addActOptions(command, { states: false })
  addExamples(command, [
    ["holdfast dlq replay --filter 'error:timeout' --dry-run", 'how many would it be?'],
    ['holdfast dlq replay --group 5f0c2a11 --per-second 20', 'those that died of one thing, 20 a second'],
    ['holdfast dlq replay --all --yes', 'everything, in a script'],
  ])
}

function withGroup({ group, ...flags }: ReplayFlags): ActFlags {
  if (group === undefined) return flags
  return { ...flags, filter: `${flags.filter ?? ''} fingerprint:${group}`.trim() }
}
