// holdfast tail: everything that happens in the store, as JSON lines. holdfast jobs tail: one job to its end, or all that match,
// for people.

import type { Command } from 'commander'
import type { Duration } from '../../core/duration.js'
import { HoldfastError } from '../../core/errors.js'
import type { AuditEntry } from '../../core/operating.js'
import { isFinished } from '../../core/states.js'
import type { JobView } from '../../core/views.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, type Cli } from '../command.js'
import { EXIT } from '../exit-codes.js'
import { everyOption, wholeNumber } from '../input/arguments.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { addFilterOptions, type FilterFlags, readJobFilter } from '../input/filters.js'
import { findJobId } from '../input/ids.js'
import { type JobChange, JobWatch, momentOf } from '../job-watch.js'
import { type Lifetime, pollUntil, readingLifetime } from '../lifetime.js'
import { errorText } from '../output/columns.js'
import { writeJsonLine } from '../output/json.js'
import { LinePrinter, type Tone } from '../output/lines.js'
import { visible, visibleJson } from '../output/terminal.js'

const FOLLOWING = 'following; Ctrl-C ends it'

interface TailFlags extends StoreFlags, FilterFlags {
  readonly every: Duration
  readonly limit?: number
}

export function addTail(parent: Command, cli: Cli): void {
  const command = parent
    .command('tail')
    .summary('follow what happens, as JSON lines')
    .description(
      'Follows the whole store by polling, until Ctrl-C: one JSON line for each change of a job (job.changed) and for each ' +
        'action of an operator (operator.acted). Payloads are left out.',
    )
    .addOption(everyOption())
    .option('--limit <number>', 'end after this many lines', wholeNumber)
    .action((flags: TailFlags) => tail(cli, flags))
  addStoreOptions(command, { json: 'the lines are JSON with and without it' })
  command.option('--jsonl', 'the same')
  addFilterOptions(command)
  addExamples(command, [
    ['holdfast tail', 'everything'],
    [`holdfast tail --filter 'queue:mail' | jq -r 'select(.state == "dead") | .error'`, 'why jobs of mail die'],
  ])
}

async function tail(cli: Cli, flags: TailFlags): Promise<void> {
  const filter = readJobFilter(flags)
  const lifetime = readingLifetime(cli)
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const jobs = new JobWatch(holdfast, filter)
    const audit = new AuditWatch(holdfast)
    let left = flags.limit ?? Number.POSITIVE_INFINITY
    let isFirst = true
    const poll = async () => {
      const lines = [...(await jobs.poll()).map(jobLine), ...(await audit.poll()).map(auditLine)]
      for (const line of lines) if (left-- > 0) writeJsonLine(cli, line)
      if (left <= 0) lifetime.end()
      if (isFirst && flags.json !== true) cli.stderr.line(FOLLOWING)
      isFirst = false
    }
    await pollUntil(lifetime.signal, { cli, everyMs: Number(flags.every), poll })
  })
}

function jobLine({ job, from }: JobChange): object {
  const { id, type, queue, state, attempt, reason, worker } = job
  const error = errorText(job.error)
  return { event: 'job.changed', at: momentOf(job), id, type, queue, from, state, attempt, reason, worker, error }
}

function auditLine({ line, at, actor, action, job, target, details }: AuditEntry): object {
  return { event: 'operator.acted', at, line, actor, action, job, target, details }
}

/** Remembers how far the audit log was read. */
class AuditWatch {
  readonly #holdfast: Holdfast
  #line: number | null = null

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast
  }

  /** The entries since the last poll, oldest first, at most a page of them. The first poll only remembers. */
  async poll(): Promise<readonly AuditEntry[]> {
    const last = this.#line
    const { entries } = await this.#holdfast.audit({ limit: last === null ? 1 : 200 })
    this.#line = entries[0]?.line ?? last ?? 0
    return last === null ? [] : entries.filter(({ line }) => line > last).reverse()
  }
}

interface JobsTailFlags extends StoreFlags, FilterFlags {
  readonly every: Duration
  readonly jsonl?: boolean
}

export function addJobsTail(parent: Command, cli: Cli): void {
  const command = parent
    .command('tail')
    .summary('follow jobs')
    .description(
      'With an id, follows one job to its end: its states, progress and log; exits with 5 when it ends dead or ' +
        'cancelled. Without an id, follows the jobs that match, until Ctrl-C.',
    )
    .argument('[id]', "the job's id, or the last 6 to 12 characters of a recent one")
    .addOption(everyOption())
    .option('--jsonl', 'the same as --json')
    .action((id: string | undefined, flags: JobsTailFlags) => tailJobs(cli, id, flags))
  addStoreOptions(command, { json: 'print one JSON document a line' })
  addFilterOptions(command)
  addExamples(command, [
    ['holdfast jobs tail 3e8a74', 'its log, as it is written'],
    ["holdfast jobs tail --filter 'queue:mail'", 'what happens to jobs of mail'],
  ])
}

async function tailJobs(cli: Cli, typed: string | undefined, flags: JobsTailFlags): Promise<void> {
  const filter = readJobFilter(flags)
  const lifetime = readingLifetime(cli)
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const print = new JobPrinter(cli, flags)
    const poll =
      typed === undefined
        ? pollMany(print, new JobWatch(holdfast, filter))
        : pollOne(print, holdfast, await findJobId(holdfast, typed), lifetime)
    await pollUntil(lifetime.signal, { cli, everyMs: Number(flags.every), poll })
  })
}

function pollMany(print: JobPrinter, watch: JobWatch): () => Promise<void> {
  let isFirst = true
  return async () => {
    for (const change of await watch.poll()) print.changed(change)
    if (isFirst) print.begin()
    isFirst = false
  }
}

function pollOne(print: JobPrinter, holdfast: Holdfast, id: string, lifetime: Lifetime): () => Promise<void> {
  let last: JobView | null = null
  return async () => {
    const job = await holdfast.get(id)
    if (job === null) throw new HoldfastError('job_not_found', `there is no job ${id}`)
    const isChanged = last === null || last.state !== job.state || last.attempt !== job.attempt
    const change = { job, from: last?.state ?? null }
    // An attempt logs after it has started and before it has ended.
    if (isChanged && !isFinished(job.state)) print.changed(change)
    for (const { at, text } of job.logs.slice(last?.logs.length ?? 0)) print.logged(job, at, text)
    if (job.progress !== null && JSON.stringify(job.progress) !== JSON.stringify(last?.progress)) print.progressed(job)
    last = job
    if (!isFinished(job.state)) return
    if (isChanged) print.changed(change)
    if (job.state !== 'succeeded') process.exitCode = EXIT.conflict
    lifetime.end()
  }
}

const TONES: Readonly<Record<JobView['state'], Tone>> = {
  blocked: 'quiet',
  scheduled: 'quiet',
  ready: 'plain',
  running: 'plain',
  retrying: 'warning',
  succeeded: 'good',
  dead: 'bad',
  cancelled: 'quiet',
}

/** Prints what happens to jobs, as lines for people or as JSON. */
class JobPrinter {
  readonly #cli: Cli
  readonly #isJson: boolean
  readonly #lines: LinePrinter

  constructor(cli: Cli, { json, jsonl }: JobsTailFlags) {
    this.#cli = cli
    this.#isJson = json === true || jsonl === true
    this.#lines = new LinePrinter(cli.stdout, [])
  }

  begin(): void {
    if (!this.#isJson) this.#cli.stderr.line(FOLLOWING)
  }

  changed({ job, from }: JobChange): void {
    const { id, type, queue, state, attempt, maxAttempts, reason } = job
    const error = errorText(job.error)
    if (this.#isJson) {
      const facts = { at: momentOf(job), id, type, queue, from, state, attempt, reason, error }
      writeJsonLine(this.#cli, { event: 'job.changed', ...facts })
      return
    }
    const cause = error === null || state === 'succeeded' ? '' : ` · ${error}`
    const text = `${state}${reason === null ? '' : ` (${reason})`}, attempt ${attempt} of ${maxAttempts}${cause}`
    this.#lines.print({ subject: type, id, text: visible(text), tone: TONES[state], isRoutine: false }, momentOf(job))
  }

  progressed({ id, type, progress }: JobView): void {
    const text = visible(`progress ${visibleJson(progress, 0)}`)
    if (this.#isJson) writeJsonLine(this.#cli, { event: 'job.progressed', id, progress })
    else this.#lines.print({ subject: type, id, text, tone: 'quiet', isRoutine: false })
  }

  logged({ id, type }: JobView, at: Date, text: string): void {
    if (this.#isJson) writeJsonLine(this.#cli, { event: 'job.logged', id, at, text })
    else this.#lines.print({ subject: type, id, text: visible(text), tone: 'plain', isRoutine: false }, at)
  }
}
