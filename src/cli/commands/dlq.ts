// holdfast dlq: the dead-letter queue. What is in it, why, and running it again.

import type { Command } from 'commander'
import type { DeadGroup } from '../../core/operating.js'
import { type ActFlags, actOnJobs, addActOptions, REQUEUE } from '../act-on-jobs.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { given, wholeNumber } from '../input/arguments.js'
import { addStoreOptions, withStore } from '../input/connection.js'
import { addFilterOptions, readJobFilter } from '../input/filters.js'
import { addPageOptions, type ListJobsFlags, listJobs } from '../list-jobs.js'
import { DEAD_COLUMNS, errorText } from '../output/columns.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../output/table.js'
import { whenText } from '../output/times.js'

export function addDlq(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'dlq',
    summary: 'look at dead jobs and requeue them',
    description:
      'The dead-letter queue: jobs that used up their attempts, were dropped, or crashed their worker too often.',
    examples: [
      ['holdfast dlq groups', 'which errors they died of, the most frequent first'],
      ['holdfast dlq requeue --group 5f0c2a11 --per-second 20', 'run those of one error again, slowly'],
    ],
    commands: [addGroups, addList, addRequeue],
  })
}

interface GroupsFlags extends ListFlags {
  readonly queue?: string
  readonly limit: number
}

const GROUP_COLUMNS: readonly Column<DeadGroup>[] = [
  { name: 'group', text: ({ fingerprint }) => fingerprint },
  { name: 'jobs', text: ({ count, isExact }) => `${isExact ? '' : '≥'}${count.toLocaleString('en')}`, side: 'right' },
  { name: 'first', text: ({ firstAt }, look) => whenText(firstAt, look), isExtra: true },
  { name: 'last', text: ({ lastAt }, look) => whenText(lastAt, look) },
  { name: 'queues', text: ({ queues }) => queues.join(','), isLong: true },
  { name: 'types', text: ({ types }) => types.join(','), isLong: true },
  { name: 'newest', text: ({ newestId }) => newestId, isExtra: true },
  { name: 'error', text: ({ error }) => errorText(error) ?? '(no error)', isLong: true },
]

function addGroups(parent: Command, cli: Cli): void {
  const command = parent
    .command('groups')
    .summary('group dead jobs by their error')
    .description('Groups dead jobs by the fingerprint of their error, the largest group first.')
    .option('--queue <name>', 'only of this queue')
    .option('--limit <number>', 'how many groups at most, up to 100', wholeNumber, 20)
    .action((flags: GroupsFlags) => groups(cli, flags))
  addStoreOptions(command, { json: 'print { groups } as JSON' })
  addTableOptions(command, GROUP_COLUMNS)
  addExamples(command, [
    ['holdfast dlq groups', 'which errors they died of'],
    ["holdfast dlq groups --json | jq -r '.groups[0].fingerprint'", 'the largest, for `dlq requeue --group`'],
  ])
}

async function groups(cli: Cli, flags: GroupsFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { queue, limit } = flags
    const rows = await holdfast.deadGroups({ limit, ...given({ queue }) })
    printListing(cli, flags, { name: 'groups', rows, columns: GROUP_COLUMNS, empty: 'no job is dead' })
  })
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list dead jobs')
    .description('Lists dead jobs, newest first.')
    .action((flags: ListJobsFlags) => list(cli, flags))
  addPageOptions(command)
  addStoreOptions(command, { json: 'print { jobs, cursor, searched, searchedTo } as JSON' })
  addTableOptions(command, DEAD_COLUMNS)
  addFilterOptions(command, { states: false })
  addExamples(command, [
    ['holdfast dlq list --queue mail', 'of one queue'],
    ["holdfast dlq list --filter 'reason:crashed finished:<1d'", 'what crashed workers since yesterday'],
  ])
}

async function list(cli: Cli, flags: ListJobsFlags): Promise<void> {
  const filter = readJobFilter({ ...flags, state: 'dead' })
  await withStore(flags, { mustExist: true }, (holdfast) =>
    listJobs(cli, holdfast, flags, { filter, columns: DEAD_COLUMNS }),
  )
}

interface RequeueFlags extends ActFlags {
  readonly group?: string
}

function addRequeue(parent: Command, cli: Cli): void {
  const command = parent
    .command('requeue')
    .summary('run dead jobs again')
    .description(
      'Requeues dead jobs: their attempts start again at 0. With a filter, or --group, one bulk action requeues them; it ' +
        'continues when you leave this command. Prints the ids of the jobs, or the id of the bulk action.',
    )
    .option('--group <fingerprint>', 'those that died of one error, see `holdfast dlq groups`')
    .action((ids: readonly string[], flags: RequeueFlags) => actOnJobs(cli, REQUEUE, ids, withGroup(flags)))
  addActOptions(command, { states: false })
  addExamples(command, [
    ["holdfast dlq requeue --filter 'error:timeout' --dry-run", 'how many would it be?'],
    ['holdfast dlq requeue --group 5f0c2a11 --per-second 20', 'those of one error, 20 a second'],
    ['holdfast dlq requeue --all --yes', 'everything, in a script'],
  ])
}

function withGroup({ group, ...flags }: RequeueFlags): ActFlags {
  if (group === undefined) return flags
  return { ...flags, filter: `${flags.filter ?? ''} fingerprint:${group}`.trim() }
}
