// A list of jobs, page after page until there are as many as were asked for. For `jobs list` and `dlq list`.

import type { Command } from 'commander'
import type { JobList } from '../client/look.js'
import type { JobFilter, JobSummary } from '../core/job.js'
import { PAGE_MAX } from '../core/operator-store.js'
import type { Holdfast } from '../holdfast.js'
import { wholeNumber } from './arguments.js'
import type { Cli } from './command.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'
import type { FilterFlags } from './filters.js'
import { type Column, type ListFlags, printListing } from './table.js'

export interface ListJobsFlags extends ListFlags, FilterFlags {
  readonly limit: number
  readonly cursor?: string
}

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 10_000
// A page of a rare filter may find nothing; so many pages are looked through, then the reader decides.
const PAGES_MAX = 100

/** Adds how many, and where to go on. */
export function addPageOptions(command: Command): Command {
  return command
    .option('--limit <number>', `the most jobs, up to ${LIMIT_MAX.toLocaleString('en')}`, wholeNumber, LIMIT_DEFAULT)
    .option('--cursor <id>', 'go on where an earlier list ended')
}

/** Lists and prints. */
export async function listJobs(
  cli: Cli,
  holdfast: Holdfast,
  flags: ListJobsFlags,
  { filter, columns }: { readonly filter: JobFilter; readonly columns: readonly Column<JobSummary>[] },
): Promise<void> {
  if (flags.limit < 1 || flags.limit > LIMIT_MAX) {
    throw new CliError(`--limit must be from 1 to ${LIMIT_MAX}, got ${flags.limit}`, { exitCode: EXIT.usage })
  }
  const list = await readPages(holdfast, filter, flags.limit, flags.cursor ?? null)
  const { jobs, cursor, searched, searchedTo } = list
  const more = { cursor, searched, searchedTo }
  printListing(cli, flags, { name: 'jobs', rows: jobs, columns, more, empty: 'no job matches' })
  if (flags.json === true || flags.jsonl === true || cursor === null) return
  const where = searchedTo === null ? 'there are more' : `looked through ${searched.toLocaleString('en')} jobs, back to`
  const back = searchedTo === null ? '' : ` ${searchedTo.toISOString()}`
  cli.stderr.line(`${where}${back}: go on with --cursor ${cursor}`)
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
