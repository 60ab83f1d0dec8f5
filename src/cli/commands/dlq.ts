// holdfast dlq: the dead-letter queue. What is in it, why, and running it again.

import type { Command } from 'commander'
import { given } from '../../core/given.js'
import type { DeadGroup } from '../../core/operating.js'
import { type ActFlags, actOnJobs, addActOptions, REQUEUE } from '../act-on-jobs.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { wholeNumber } from '../input/arguments.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
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
      ['holdfast dlq requeue --fingerprint 5f0c2a11 --per-second 20', 'run those of one error again, slowly'],
    ],
    commands: [addGroups, addList, addRequeue],
  })
}

interface GroupsFlags extends ListFlags {
  readonly queue?: string
  readonly limit: number
}

const GROUP_COLUMNS: readonly Column<DeadGroup>[] = [
  { name: 'fingerprint', text: ({ fingerprint }) => fingerprint },
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
    ["holdfast dlq groups --json | jq -r '.groups[0].fingerprint'", 'the largest, for `dlq requeue --fingerprint`'],
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
  addFilterOptions(command, { states: false })
  addPageOptions(command)
  addTableOptions(command, DEAD_COLUMNS)
  addStoreOptions(command, { json: 'print { jobs, cursor, searched, searchedTo } as JSON' })
  addExamples(command, [
    ['holdfast dlq list --queue mail', 'of one queue'],
    ['holdfast dlq list --queue billing --group acme', 'of one group'],
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
  readonly fingerprint?: string
}

function addRequeue(parent: Command, cli: Cli): void {
  const command = parent
    .command('requeue')
    .summary('run dead jobs again')
    .description(
      'Requeues dead jobs: their attempts start again at 0. With a filter, or --fingerprint, one bulk action requeues them; it ' +
        'continues when you leave this command. Prints the ids of the jobs, or the id of the bulk action.',
    )
    .option('--fingerprint <hex>', 'those that died of one error, by `holdfast dlq groups`; its beginning is enough')
    .action((ids: readonly string[], flags: RequeueFlags) => requeue(cli, ids, flags))
  addActOptions(command, { states: false })
  addExamples(command, [
    ["holdfast dlq requeue --filter 'error:timeout' --dry-run", 'how many would it be?'],
    ['holdfast dlq requeue --fingerprint 5f0c2a11 --per-second 20', 'those of one error, 20 a second'],
    ['holdfast dlq requeue --all --yes', 'everything, in a script'],
  ])
}

async function requeue(
  cli: Cli,
  ids: readonly string[],
  { fingerprint: typed, ...flags }: RequeueFlags,
): Promise<void> {
  if (typed === undefined) return actOnJobs(cli, REQUEUE, ids, flags)
  const fingerprint = await findFingerprint(typed, flags)
  await actOnJobs(cli, REQUEUE, ids, { ...flags, filter: `${flags.filter ?? ''} fingerprint:${fingerprint}`.trim() })
}

const GROUPS_MAX = 100

/** The whole fingerprint of an error. Its beginning is looked up among the 100 that killed the most jobs. */
async function findFingerprint(typed: string, flags: StoreFlags): Promise<string> {
  const groups = await withStore(flags, { mustExist: true }, (holdfast) => holdfast.deadGroups({ limit: GROUPS_MAX }))
  const found = groups.map(({ fingerprint }) => fingerprint).filter((fingerprint) => fingerprint.startsWith(typed))
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    throw new CliError(`${found.length} fingerprints begin with ${typed}: ${found.join(', ')}`)
  }
  // A small group among very many is not in the list, but its jobs can still be found.
  if (groups.length === GROUPS_MAX) return typed
  throw new CliError(`no fingerprint of dead jobs begins with ${JSON.stringify(typed)}`, {
    exitCode: EXIT.notFound,
    hint: '`holdfast dlq groups` shows all of them',
  })
}
