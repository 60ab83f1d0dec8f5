// holdfast dlq groups: dead jobs by what killed them.

import type { Command } from 'commander'
import type { DeadGroup } from '../../../core/operating.js'
import { wholeNumber } from '../../arguments.js'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../../table.js'
import { whenText } from '../../times.js'

interface GroupsFlags extends ListFlags {
  readonly queue?: string
  readonly limit: number
}

const COLUMNS: readonly Column<DeadGroup>[] = [
  { name: 'group', text: ({ fingerprint }) => fingerprint },
  {
    name: 'jobs',
    text: ({ count, isExact }) => `${isExact ? '' : '≥'}${count.toLocaleString('en')}`,
    side: 'right',
  },
  { name: 'first', text: ({ firstAt }, look) => whenText(firstAt, look), isExtra: true },
  { name: 'last', text: ({ lastAt }, look) => whenText(lastAt, look) },
  { name: 'queues', text: ({ queues }) => queues.join(','), isLong: true },
  { name: 'types', text: ({ types }) => types.join(','), isLong: true },
  { name: 'newest', text: ({ newestId }) => newestId, isExtra: true },
  {
    name: 'error',
    text: ({ error }) => (error === null ? '(none was kept)' : `${error.name}: ${error.message}`),
    isLong: true,
  },
]

export function addDlqGroups(parent: Command, cli: Cli): void {
  const command = parent
    .command('groups')
    .summary('group dead jobs by what killed them')
    .description('Groups dead jobs by the fingerprint of their error, the largest group first.')
    .option('--queue <name>', 'only of this queue')
    .option('--limit <number>', 'the most groups, up to 100', wholeNumber, 20)
    .action((flags: GroupsFlags) => groups(cli, flags))
  addStoreOptions(command, { json: 'print { groups } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [
    ['holdfast dlq groups', 'what killed them'],
    ["holdfast dlq groups --json | jq -r '.groups[0].fingerprint'", 'the largest, for `dlq replay --group`'],
  ])
}

async function groups(cli: Cli, flags: GroupsFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { queue, limit } = flags
    const rows = await holdfast.deadGroups({ limit, ...(queue === undefined ? {} : { queue }) })
    printListing(cli, flags, { name: 'groups', rows, columns: COLUMNS, empty: 'no job is dead' })
  })
}
