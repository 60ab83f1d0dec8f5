// holdfast schedules list: every schedule.

import type { Command } from 'commander'
import type { ScheduleStatus } from '../../../client/schedules.js'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { shortId } from '../../job-ids.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../../table.js'
import { whenText } from '../../times.js'

const COLUMNS: readonly Column<ScheduleStatus>[] = [
  {
    name: 'schedule',
    text: ({ name, paused }) => (paused ? `${name} (paused)` : name),
    format: ({ paused }) => (paused ? 'yellow' : null),
    isLong: true,
  },
  { name: 'cron', text: ({ cron }) => cron },
  { name: 'zone', text: ({ zone }) => zone },
  { name: 'type', text: ({ type }) => type, isLong: true },
  { name: 'queue', text: ({ queue }) => queue, isLong: true },
  { name: 'next', text: ({ nextAt, paused }, look) => (paused ? '-' : whenText(nextAt, look)) },
  { name: 'last', text: ({ lastAt }, look) => whenText(lastAt, look) },
  {
    name: 'job',
    text: ({ lastJobId }, { isShort }) => (lastJobId === null ? '-' : isShort ? shortId(lastJobId) : lastJobId),
  },
  { name: 'catch-up', text: ({ catchUp }) => catchUp, isExtra: true },
  { name: 'overlap', text: ({ overlap }) => overlap, isExtra: true },
]

export function addSchedulesList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list schedules')
    .description('Lists every schedule: when it fires next, when it last did, and the job it made then.')
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { schedules } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [
    ['holdfast schedules list', 'every schedule'],
    ["holdfast schedules list --jsonl | jq -r 'select(.paused) | .name'", 'those that are paused'],
  ])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.schedules()
    const empty = 'there is no schedule: `holdfast schedules add` makes one'
    printListing(cli, flags, { name: 'schedules', rows, columns: COLUMNS, empty })
  })
}
