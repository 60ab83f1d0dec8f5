// holdfast jobs tail: follows one job to its end, or all that match.

import { type Command, Option } from 'commander'
import type { Duration } from '../../../core/duration.js'
import { HoldfastError } from '../../../core/errors.js'
import type { JobView } from '../../../core/job.js'
import { isFinished } from '../../../core/states.js'
import type { Holdfast } from '../../../holdfast.js'
import { pollEvery } from '../../arguments.js'
import { addExamples, type Cli, writeJsonLine } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { EXIT } from '../../exit-codes.js'
import { addFilterOptions, type FilterFlags, readJobFilter } from '../../filters.js'
import { findId } from '../../job-ids.js'
import { type JobChange, JobWatch, momentOf } from '../../job-watch.js'
import { Lifetime } from '../../lifetime.js'
import { LinePrinter } from '../../lines.js'
import type { Tone } from '../../narrator.js'
import { pollUntil } from '../../poll.js'
import { visible, visibleJson } from '../../terminal.js'

interface TailFlags extends StoreFlags, FilterFlags {
  readonly every: Duration
  readonly jsonl?: boolean
}

export function addJobsTail(parent: Command, cli: Cli): void {
  const command = parent
    .command('tail')
    .summary('follow jobs')
    .description(
      'With an id, follows one job to its end: its states, progress and log; exits with 5 when it ends dead or ' +
        'cancelled. Without, follows the jobs that match, until Ctrl-C.',
    )
    .argument('[id]', "the job's id, or the last 6 to 12 characters of a recent one")
    .option('--every <duration>', 'how often to look, 250ms to 1h', pollEvery, 1_000)
    .addOption(new Option('--jsonl', 'the same as --json'))
    .action((id: string | undefined, flags: TailFlags) => tail(cli, id, flags))
  addStoreOptions(command, { json: 'one JSON document for each line' })
  addFilterOptions(command)
  addExamples(command, [
    ['holdfast jobs tail 3e8a74', 'its log, as it is written'],
    ["holdfast jobs tail --filter 'queue:mail'", 'what becomes of mail'],
  ])
}

async function tail(cli: Cli, typed: string | undefined, flags: TailFlags): Promise<void> {
  const filter = readJobFilter(flags)
  const lifetime = new Lifetime(cli, {
    signals: ['SIGINT', 'SIGTERM'],
    onUncaught: () => false,
    leaving: 'left at once',
  })
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const tell = new Teller(cli, flags)
    const look =
      typed === undefined
        ? lookAtMany(tell, new JobWatch(holdfast, filter))
        : lookAtOne(tell, holdfast, await findId(holdfast, typed), lifetime)
    await pollUntil(lifetime.signal, { cli, everyMs: Number(flags.every), look })
  })
}

function lookAtMany(tell: Teller, watch: JobWatch): () => Promise<void> {
  let isFirst = true
  return async () => {
    for (const change of await watch.look()) tell.moved(change)
    if (isFirst) tell.begin()
    isFirst = false
  }
}

function lookAtOne(tell: Teller, holdfast: Holdfast, id: string, lifetime: Lifetime): () => Promise<void> {
  let last: JobView | null = null
  return async () => {
    const job = await holdfast.get(id)
    if (job === null) throw new HoldfastError('job_not_found', `there is no job ${id}`)
    const lastLog = last?.logs.length ?? 0
    for (const { at, text } of job.logs.slice(lastLog)) tell.logged(job, at, text)
    if (job.progress !== null && JSON.stringify(job.progress) !== JSON.stringify(last?.progress)) tell.progressed(job)
    if (last === null || last.state !== job.state || last.attempt !== job.attempt) {
      tell.moved({ job, from: last?.state ?? null })
    }
    last = job
    if (!isFinished(job.state)) return
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

/** Says it in lines for people, or in JSON. */
class Teller {
  readonly #cli: Cli
  readonly #isJson: boolean
  readonly #printer: LinePrinter

  constructor(cli: Cli, { json, jsonl }: TailFlags) {
    this.#cli = cli
    this.#isJson = json === true || jsonl === true
    this.#printer = new LinePrinter(cli.stdout, [])
  }

  begin(): void {
    if (!this.#isJson) this.#cli.stderr.line('following; Ctrl-C ends it')
  }

  moved({ job, from }: JobChange): void {
    const { id, type, queue, state, attempt, maxAttempts, reason, error } = job
    const message = error === null ? null : `${error.name}: ${error.message}`
    const facts = { at: momentOf(job), id, type, queue, from, state, attempt, reason, error: message }
    if (this.#isJson) {
      writeJsonLine(this.#cli, { event: 'job.changed', ...facts })
      return
    }
    const cause = message === null || state === 'succeeded' ? '' : ` · ${message}`
    const text = `${state}${reason === null ? '' : ` (${reason})`}, attempt ${attempt} of ${maxAttempts}${cause}`
    this.#printer.print({ subject: type, id, text: visible(text), tone: TONES[state], isRoutine: false }, momentOf(job))
  }

  progressed({ id, type, progress }: JobView): void {
    const text = visible(`progress ${visibleJson(progress, 0)}`)
    if (this.#isJson) writeJsonLine(this.#cli, { event: 'job.progressed', id, progress })
    else this.#printer.print({ subject: type, id, text, tone: 'quiet', isRoutine: false })
  }

  logged({ id, type }: JobView, at: Date, text: string): void {
    if (this.#isJson) writeJsonLine(this.#cli, { event: 'job.logged', id, at, text })
    else this.#printer.print({ subject: type, id, text: visible(text), tone: 'plain', isRoutine: false }, at)
  }
}
