// holdfast jobs list: jobs that match a filter.

import type { Command } from 'commander'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { addFilterOptions, readJobFilter } from '../../filters.js'
import { JOB_COLUMNS } from '../../job-columns.js'
import { addPageOptions, type ListJobsFlags, listJobs } from '../../list-jobs.js'
import { addTableOptions } from '../../table.js'

export function addJobsList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list jobs that match a filter')
    .description('Lists the jobs that match, newest first.')
    .action((flags: ListJobsFlags) => list(cli, flags))
  addPageOptions(command)
  addStoreOptions(command, { json: 'print { jobs, cursor, searched, searchedTo } as JSON' })
  addTableOptions(command, JOB_COLUMNS)
  addFilterOptions(command)
  addExamples(command, [
    ['holdfast jobs list', 'the newest'],
    [`holdfast jobs list --filter 'state:retrying error:"timed out" attempt:>3'`, 'what keeps failing'],
    ["holdfast jobs list --filter 'payload.user.id:42' --columns id,state,created", 'by what is in the payload'],
    ['holdfast jobs list --queue mail --columns id --no-header | xargs holdfast jobs cancel', 'for the next command'],
  ])
}

async function list(cli: Cli, flags: ListJobsFlags): Promise<void> {
  const filter = readJobFilter(flags)
  await withStore(flags, { mustExist: true }, (holdfast) =>
    listJobs(cli, holdfast, flags, { filter, columns: JOB_COLUMNS }),
  )
}
