// holdfast dlq list: dead jobs.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { addFilterOptions, readJobFilter } from '../../filters.js'
import { DEAD_COLUMNS } from '../../job-columns.js'
import { addPageOptions, type ListJobsFlags, listJobs } from '../../list-jobs.js'
import { addTableOptions } from '../../table.js'

export function addDlqList(parent: Command, cli: Cli): void {
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
    ["holdfast dlq list --filter 'reason:crashed finished:<1d'", 'what took workers down since yesterday'],
  ])
}

async function list(cli: Cli, flags: ListJobsFlags): Promise<void> {
  const filter = readJobFilter({ ...flags, state: 'dead' })
  await withStore(flags, { mustExist: true }, (holdfast) =>
    listJobs(cli, holdfast, flags, { filter, columns: DEAD_COLUMNS }),
  )
}
