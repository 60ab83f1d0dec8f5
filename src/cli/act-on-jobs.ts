// Doing something to jobs: to a few by their ids, one after the other, or to all that match a filter as one bulk action,
// after it was said how many that would be.

import type { Command } from 'commander'
import { isHoldfastError } from '../core/errors.js'
import { isEveryJob } from '../core/filter-match.js'
import type { JobFilter } from '../core/job.js'
import type { BulkAction, BulkView } from '../core/operating.js'
import type { Holdfast } from '../holdfast.js'
import { type ActorFlags, addByOption, byOption } from './actor.js'
import { wholeNumber } from './arguments.js'
import { type Cli, writeJson } from './command.js'
import { addYesOption, type ConfirmFlags, confirm } from './confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from './connection.js'
import { CliError } from './errors.js'
import { EXIT, exitCodeOf } from './exit-codes.js'
import { addFilterOptions, type FilterFlags, readJobFilter } from './filters.js'
import { exitCodeOfBulk, followBulk, isOver } from './follow-bulk.js'
import { findId } from './job-ids.js'

export interface ActFlags extends StoreFlags, FilterFlags, ConfirmFlags, ActorFlags {
  readonly all?: boolean
  readonly perSecond?: number
  readonly limit?: number
  readonly dryRun?: boolean
  readonly wait: boolean
}

/** What is done to jobs, and how. */
export interface Act {
  readonly action: BulkAction
  /** As in "3 jobs …". */
  readonly past: string
  /** Does it to one job and says what came of it. */
  readonly one: (holdfast: Holdfast, id: string, by: { readonly by: string }) => Promise<object>
  /** What filters are narrowed to beforehand. */
  readonly only?: Pick<JobFilter, 'states'>
}

/** Adds the ids and options of such a command. */
export function addActOptions(command: Command, { states = true }: { readonly states?: boolean } = {}): Command {
  command
    .argument('[ids...]', 'ids, or the last 6 to 12 characters of recent ones')
    .option('--all', 'every job, instead of a filter')
    .option('--per-second <number>', 'of a filter: so many jobs a second (default: as fast as it goes)', wholeNumber)
    .option('--limit <number>', 'of a filter: at most so many jobs, the newest first', wholeNumber)
    .option('--dry-run', 'do nothing, say how many jobs it would be')
    .option('--no-wait', 'of a filter: do not wait until it is done, print the id of the bulk action')
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { jobs }, or of a filter { bulk }, as JSON' })
  return addFilterOptions(command, { states })
}

/** Runs such a command. */
export async function actOnJobs(cli: Cli, act: Act, ids: readonly string[], flags: ActFlags): Promise<void> {
  const filter = { ...act.only, ...readJobFilter(flags) }
  const isFiltered = flags.all === true || !isEveryJob(readJobFilter(flags))
  if (ids.length > 0 === isFiltered) {
    throw new CliError(ids.length > 0 ? 'ids and a filter both say which jobs' : 'nothing says which jobs', {
      exitCode: EXIT.usage,
      hint: `give ids, or a --filter, or --all to ${act.action} every job that can be`,
    })
  }
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    if (isFiltered) await actOnMatching(cli, holdfast, act, filter, flags)
    else if (flags.dryRun === true) await showEach(cli, holdfast, ids, flags)
    else await actOnEach(cli, holdfast, act, ids, flags)
  })
}

async function showEach(cli: Cli, holdfast: Holdfast, ids: readonly string[], flags: ActFlags): Promise<void> {
  const jobs: object[] = []
  for (const typed of ids) {
    const id = await findId(holdfast, typed)
    const job = await holdfast.get(id)
    jobs.push({ id, state: job?.state ?? null })
    if (flags.json !== true) cli.stdout.line(`${id}  ${job?.state ?? 'missing'}`)
  }
  if (flags.json === true) writeJson(cli, { dryRun: true, jobs })
}

async function actOnEach(
  cli: Cli,
  holdfast: Holdfast,
  { past, one }: Act,
  ids: readonly string[],
  flags: ActFlags,
): Promise<void> {
  const results: object[] = []
  let refusal: Error | null = null
  let refused = 0
  for (const typed of ids) {
    try {
      const id = await findId(holdfast, typed)
      results.push({ id, ...(await one(holdfast, id, byOption(flags))) })
      if (flags.json !== true) cli.stdout.line(id)
    } catch (error) {
      // Alone it is the command's own failure; among others they must not go down with it.
      if (ids.length === 1 || !isRefusal(error)) throw error
      refusal ??= error
      refused++
      const code = isHoldfastError(error) ? error.code : 'job_not_found'
      results.push({ id: typed, error: { code, message: error.message } })
      if (flags.json !== true) cli.stderr.line(`${cli.stderr.style('yellow', 'refused:')} ${error.message}`)
    }
  }
  if (flags.json === true) writeJson(cli, { jobs: results })
  else cli.stderr.line(`${ids.length - refused} ${past}${refused === 0 ? '' : `, ${refused} refused`}`)
  if (refused > 0) process.exitCode = refused < ids.length ? EXIT.partial : exitCodeOfRefusal(refusal!)
}

function isRefusal(error: unknown): error is Error {
  if (error instanceof CliError) return error.exitCode === EXIT.notFound
  return isHoldfastError(error) && ['wrong_state', 'job_not_found', 'key_conflict'].includes(error.code)
}

function exitCodeOfRefusal(error: Error): number {
  return error instanceof CliError ? error.exitCode : isHoldfastError(error) ? exitCodeOf(error.code) : EXIT.unexpected
}

async function actOnMatching(
  cli: Cli,
  holdfast: Holdfast,
  { action, past }: Act,
  filter: JobFilter,
  flags: ActFlags,
): Promise<void> {
  const preview = await holdfast.bulk({ action, filter, dryRun: true })
  const { matches, can, isExact } = preview
  const count = Math.min(can, flags.limit ?? can)
  const text = `${isExact ? '' : 'at least '}${jobsText(matches)} match; ${number(count)} can be ${past}`
  if (flags.dryRun === true || can === 0) {
    if (flags.json === true) writeJson(cli, { dryRun: flags.dryRun === true, action, ...preview, bulk: null })
    else (flags.dryRun === true ? cli.stdout : cli.stderr).line(text)
    return
  }
  if (!(await confirm(cli, `${text}. ${capital(action)} them?`, flags))) return
  const { perSecond, limit } = flags
  const request = {
    ...{ action, filter, all: flags.all === true },
    ...(perSecond === undefined ? {} : { perSecond }),
    ...(limit === undefined ? {} : { limit }),
  }
  const { id } = await holdfast.bulk(request, byOption(flags))
  if (flags.json !== true) cli.stdout.line(id)
  const view = flags.wait ? await followBulk(cli, holdfast, id, flags) : await holdfast.getBulk(id)
  if (flags.json === true) writeJson(cli, { bulk: view })
  else cli.stderr.line(describeBulk(view!, past))
  if (flags.wait) process.exitCode = isOver(view!) ? exitCodeOfBulk(view!) : EXIT.interrupted
}

function describeBulk(bulk: BulkView, past: string): string {
  const counts = `${number(bulk.done)} ${past}${bulk.refused === 0 ? '' : `, ${number(bulk.refused)} refused`}`
  if (bulk.state === 'done') return counts
  if (bulk.state === 'failed') return `failed after ${counts}: ${bulk.error}`
  if (bulk.state === 'cancelled') return `cancelled after ${counts}`
  return `${counts} so far; workers go on with it: \`holdfast bulk show ${bulk.id}\`, or \`bulk cancel\` to end it`
}

function jobsText(count: number): string {
  return count === 1 ? '1 job' : `${number(count)} jobs`
}

function number(count: number): string {
  return count.toLocaleString('en')
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
