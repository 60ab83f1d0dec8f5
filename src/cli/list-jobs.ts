// Lists jobs, page by page, up to a limit. For `jobs list` and `dlq list`.

import type { Command } from 'commander'
import type { JobList } from '../client/look.js'
import type { JobFilter } from '../core/job-filter.js'
import { PAGE_MAX } from '../core/operator-store.js'
import type { JobSummary } from '../core/views.js'
import type { Holdfast } from '../holdfast.js'
import type { Cli } from './command.js'
import { CliError } from './errors.js'
import { wholeNumber } from './input/arguments.js'
import type { FilterFlags } from './input/filters.js'
import { type Column, type ListFlags, printListing } from './output/table.js'

export interface ListJobsFlags extends ListFlags, FilterFlags {
  readonly limit: number
  readonly cursor?: string
}

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 10_000
// With a rare filter a page may find nothing. After this many pages the reader decides whether to continue.
const PAGES_MAX = 100

/** Adds --limit and --cursor. */
export function addPageOptions(command: Command): Command {
  return command
    .option(
      '--limit <number>',
      `how many jobs at most, up to ${LIMIT_MAX.toLocaleString('en')}`,
      wholeNumber,
      LIMIT_DEFAULT,
    )
    .option('--cursor <id>', 'continue where an earlier list ended')
}

/** Reads the list and prints it. */
export async function listJobs(
  cli: Cli,
  holdfast: Holdfast,
  flags: ListJobsFlags,
  { filter, columns }: { readonly filter: JobFilter; readonly columns: readonly Column<JobSummary>[] },
): Promise<void> {
  if (flags.limit < 1 || flags.limit > LIMIT_MAX) {
    throw new CliError(`--limit must be from 1 to ${LIMIT_MAX}, got ${flags.limit}`)
  }
  const list = await readPages(holdfast, filter, flags.limit, flags.cursor ?? null)
  const { jobs, cursor, searched, searchedTo } = list
  const more = { cursor, searched, searchedTo }
  printListing(cli, flags, { name: 'jobs', rows: jobs, columns, more, empty: 'no job matches' })
  if (flags.json === true || flags.jsonl === true || cursor === null) return
  const searchedText = `searched ${searched.toLocaleString('en')} jobs, back to ${searchedTo?.toISOString()}`
  cli.stderr.line(`${searchedTo === null ? 'there are more' : searchedText}: continue with --cursor ${cursor}`)
}

async function readPages(holdfast: Holdfast, filter: JobFilter, limit: number, start: string | null): Promise<JobList> {
  const jobs: JobSummary[] = []
  let searched = 0
  let cursor = start
  for (let page = 1; ; page++) {
    const list: JobList = await holdfast.list({ filter, limit: Math.min(PAGE_MAX, limit - jobs.length), cursor })
    jobs.push(...list.jobs)
    searched += list.searched
    cursor = list.cursor
    if (cursor === null || jobs.length >= limit || page === PAGES_MAX) {
      return { jobs, cursor, searched, searchedTo: list.searchedTo }
    }
  }
}
