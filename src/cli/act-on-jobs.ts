// Actions on jobs (cancel, requeue, discard): on some by id, one after the other, or on all that match a filter as one bulk
// action, after asking with the count.

import type { Command } from 'commander'
import { isHoldfastError } from '../core/errors.js'
import { isEveryJob } from '../core/filter-match.js'
import { given } from '../core/given.js'
import type { JobFilter } from '../core/job-filter.js'
import type { BulkAction, BulkView } from '../core/operating.js'
import type { Holdfast } from '../holdfast.js'
import type { Cli } from './command.js'
import { CliError } from './errors.js'
import { EXIT, exitCodeOf } from './exit-codes.js'
import { exitCodeOfBulk, followBulk, isOver } from './follow-bulk.js'
import { type ActorFlags, addByOption, byOption } from './input/actor.js'
import { wholeNumber } from './input/arguments.js'
import { addYesOption, type ConfirmFlags, confirm } from './input/confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from './input/connection.js'
import { addFilterOptions, type FilterFlags, readJobFilter } from './input/filters.js'
import { findJobId } from './input/ids.js'
import { writeJson } from './output/json.js'

export interface ActFlags extends StoreFlags, FilterFlags, ConfirmFlags, ActorFlags {
  readonly all?: boolean
  readonly perSecond?: number
  readonly limit?: number
  readonly dryRun?: boolean
  readonly wait: boolean
}

/** An action on jobs. */
export interface Act {
  readonly action: BulkAction
  /** As in "3 requeued". */
  readonly past: string
  /** Does it to one job; the fields it returns are printed with --json. */
  readonly one: (holdfast: Holdfast, id: string, by: { readonly by: string }) => Promise<object>
  /** The states a filter is limited to when it names none. */
  readonly only?: Pick<JobFilter, 'states'>
}

/** Requeueing dead jobs, for `jobs requeue` and `dlq requeue`. */
export const REQUEUE: Act = {
  action: 'requeue',
  past: 'requeued',
  only: { states: ['dead'] },
  one: async (holdfast, id, by) => ({ result: 'requeued', ...(await holdfast.requeue(id, by)) }),
}

/** Adds the ids and options of such a command. */
export function addActOptions(command: Command, { states = true }: { readonly states?: boolean } = {}): Command {
  command.argument('[ids...]', 'ids of jobs, or the last 6 to 12 characters of recent ones')
  addFilterOptions(command, { states })
  command
    .option('--all', 'every job, instead of a filter')
    .option(
      '--per-second <number>',
      'with a filter: at most this many jobs a second (default: as fast as possible)',
      wholeNumber,
    )
    .option('--limit <number>', 'with a filter: at most this many jobs, the newest first', wholeNumber)
    .option('--dry-run', 'change nothing, print how many jobs it would change')
    .option('--no-wait', 'with a filter: print the id of the bulk action and do not wait for it')
  addYesOption(command)
  addByOption(command)
  return addStoreOptions(command, { json: 'print { jobs }, or with a filter { bulk }, as JSON' })
}

/** Runs such a command. */
export async function actOnJobs(cli: Cli, act: Act, ids: readonly string[], flags: ActFlags): Promise<void> {
  const filter = { ...act.only, ...readJobFilter(flags) }
  const isFiltered = flags.all === true || !isEveryJob(readJobFilter(flags))
  if (ids.length > 0 === isFiltered) {
    throw new CliError(ids.length > 0 ? 'ids and a filter cannot be combined' : 'no jobs are named', {
      hint: `give ids, or a --filter, or --all to ${act.action} every job whose state allows it`,
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
    const id = await findJobId(holdfast, typed)
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
      const id = await findJobId(holdfast, typed)
      results.push({ id, ...(await one(holdfast, id, byOption(flags))) })
      if (flags.json !== true) cli.stdout.line(id)
    } catch (error) {
      // For a single job it is the command's failure. Among several, the others must still be done.
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
  const verb = matches === 1 ? 'matches' : 'match'
  const text = `${isExact ? '' : 'at least '}${jobsText(matches)} ${verb}; ${number(count)} can be ${past}`
  if (flags.dryRun === true || can === 0) {
    if (flags.json === true) writeJson(cli, { dryRun: flags.dryRun === true, action, ...preview, bulk: null })
    else (flags.dryRun === true ? cli.stdout : cli.stderr).line(text)
    return
  }
  if (!(await confirm(cli, `${text}. ${capital(action)} them?`, flags))) return
  const { perSecond, limit } = flags
  const request = { action, filter, all: flags.all === true, ...given({ perSecond, limit }) }
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
  return `${counts} so far; workers continue with it: \`holdfast bulk show ${bulk.id}\` shows how far it is, \`bulk cancel\` ends it`
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
