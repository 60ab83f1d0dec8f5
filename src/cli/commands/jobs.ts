// holdfast jobs: look at jobs and change them. `jobs tail` is in tail.ts.

import { type Command, Option } from 'commander'
import type { UpdateOptions } from '../../client/job-actions.js'
import type { Duration } from '../../core/duration.js'
import { HoldfastError } from '../../core/errors.js'
import { given } from '../../core/given.js'
import { type Act, type ActFlags, actOnJobs, addActOptions, REQUEUE } from '../act-on-jobs.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { duration, wholeNumber } from '../input/arguments.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { addFilterOptions, readJobFilter } from '../input/filters.js'
import { findJobId } from '../input/ids.js'
import { readPayload } from '../input/payload.js'
import { addPageOptions, type ListJobsFlags, listJobs } from '../list-jobs.js'
import { JOB_COLUMNS, STATE_FORMAT } from '../output/columns.js'
import { describeJob } from '../output/job.js'
import { writeJson } from '../output/json.js'
import { addTableOptions } from '../output/table.js'
import { visible } from '../output/terminal.js'
import { addJobsTail } from './tail.js'

const ID_HELP = "the job's id, or the last 6 to 12 characters of a recent one"

export function addJobs(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'jobs',
    summary: 'look at jobs and change them',
    description: 'Look at jobs and change them, by id or by filter.',
    examples: [
      ['holdfast jobs list --filter "state:dead created:<1d"', 'what died since yesterday'],
      ['holdfast jobs explain 3e8a74', 'why is this job not running?'],
    ],
    commands: [
      addList,
      addShow,
      addExplain,
      addJobsTail,
      addEdit,
      addSignal,
      addCancel,
      addRequeue,
      addDiscard,
      addDelete,
      addRunAgain,
    ],
  })
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list jobs that match a filter')
    .description('Lists the jobs that match, newest first.')
    .action((flags: ListJobsFlags) => list(cli, flags))
  addFilterOptions(command)
  addPageOptions(command)
  addTableOptions(command, JOB_COLUMNS)
  addStoreOptions(command, { json: 'print { jobs, cursor, searched, searchedTo } as JSON' })
  addExamples(command, [
    ['holdfast jobs list', 'the newest'],
    [`holdfast jobs list --filter 'state:retrying error:"timed out" attempt:>3'`, 'what keeps failing'],
    ["holdfast jobs list --filter 'payload.user.id:42' --columns id,state,created", 'by a value in the payload'],
    ['holdfast jobs list --queue mail --columns id --no-header | xargs holdfast jobs cancel', 'for the next command'],
  ])
}

async function list(cli: Cli, flags: ListJobsFlags): Promise<void> {
  const filter = readJobFilter(flags)
  await withStore(flags, { mustExist: true }, (holdfast) =>
    listJobs(cli, holdfast, flags, { filter, columns: JOB_COLUMNS }),
  )
}

function addShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one job')
    .description('Shows one job: its state, times, payload and result, each failed attempt, its log.')
    .argument('<id>', ID_HELP)
    .action((id: string, flags: StoreFlags) => show(cli, id, flags))
  addStoreOptions(command, { json: 'print { job } as JSON' })
  addExamples(command, [
    ['holdfast jobs show 0199a8f2-7c31-7a4e-9d20-5b1f6c3e8a74', 'everything about it'],
    ['holdfast jobs show 3e8a74 --verbose', 'by the end of its id, with the stacks of its errors'],
    ["holdfast jobs show 3e8a74 --json | jq '.job.attempts[].error.message'", 'for a script'],
  ])
}

async function show(cli: Cli, typed: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findJobId(holdfast, typed)
    const job = await holdfast.get(id)
    if (job === null) throw new HoldfastError('job_not_found', `there is no job ${id}`)
    if (flags.json === true) writeJson(cli, { job })
    else for (const line of describeJob(job, cli.stdout, { verbose: flags.verbose === true })) cli.stdout.line(line)
  })
}

function addExplain(parent: Command, cli: Cli): void {
  const command = parent
    .command('explain')
    .summary('say why a job is not running, or how it ended')
    .description('Says why a job is in its state, and what would change that.')
    .argument('<id>', ID_HELP)
    .action((id: string, flags: StoreFlags) => explain(cli, id, flags))
  addStoreOptions(command, { json: 'print { id, state, summary, reasons, next } as JSON' })
  addExamples(command, [
    ['holdfast jobs explain 3e8a74', 'a paused queue? no worker? jobs before it? not due yet?'],
    ["holdfast jobs explain 3e8a74 --json | jq -r '.reasons[].code'", 'for a script'],
  ])
}

async function explain(cli: Cli, typed: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findJobId(holdfast, typed)
    const explanation = await holdfast.explain(id)
    if (flags.json === true) {
      writeJson(cli, { id, ...explanation })
      return
    }
    const { stdout } = cli
    stdout.line(`${id}  ${stdout.style(STATE_FORMAT[explanation.state], explanation.state)}`)
    for (const { text } of explanation.reasons) stdout.line(`  ${visible(text)}`)
    if (explanation.next.length > 0) stdout.line(stdout.style('dim', 'what to do'))
    for (const step of explanation.next) stdout.line(`  ${visible(step)}`)
  })
}

interface EditFlags extends StoreFlags, ActorFlags {
  readonly priority?: number
  readonly runAt?: string
  readonly delay?: Duration
  readonly now?: boolean
  readonly payload?: string
}

function addEdit(parent: Command, cli: Cli): void {
  const command = parent
    .command('edit')
    .summary('change the time, priority or payload of a waiting job')
    .description(
      'Changes a job that is blocked, scheduled, ready or retrying. A new payload replaces the old one whole.',
    )
    .argument('<id>', ID_HELP)
    .option('--priority <number>', 'higher runs first, -32768 to 32767', wholeNumber)
    .option('--run-at <time>', 'not before this time: 2030-01-31T09:00:00Z')
    .option('--delay <duration>', 'not before this long from now', duration)
    .addOption(new Option('--now', 'as soon as possible').conflicts(['runAt', 'delay']))
    .option('--payload <json>', 'JSON, or - to read it from stdin')
    .action((id: string, flags: EditFlags) => edit(cli, id, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { id, state, dueInMs } as JSON' })
  addExamples(command, [
    ['holdfast jobs edit 3e8a74 --now', 'do not wait for its time'],
    ['holdfast jobs edit 3e8a74 --priority 100', 'before the others'],
    [`holdfast jobs edit 3e8a74 --payload '{"to":"ada"}'`, 'another payload'],
  ])
}

async function edit(cli: Cli, typed: string, flags: EditFlags): Promise<void> {
  const { priority, delay } = flags
  const runAt = flags.now === true ? null : flags.runAt
  const payload = flags.payload === undefined ? undefined : await readPayload(flags.payload)
  const changes = given({ priority, delay, runAt, payload }) as UpdateOptions
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findJobId(holdfast, typed)
    const updated = await holdfast.update(id, changes, byOption(flags))
    if (flags.json === true) writeJson(cli, updated)
    else {
      cli.stdout.line(id)
      cli.stderr.line(`changed: it is ${updated.state}`)
    }
  })
}

interface SignalFlags extends StoreFlags, ActorFlags {
  readonly value?: string
  readonly key?: string
}

function addSignal(parent: Command, cli: Cli): void {
  const command = parent
    .command('signal')
    .summary('send a signal to a job that waits for it')
    .description('Sends a signal. A job that waits for it goes on; one that does not yet gets it when it waits.')
    .argument('<id>', ID_HELP)
    .argument('<name>', 'what the job waits for')
    .option('--value <json>', 'JSON, or - to read it from stdin (default: null)')
    .option('--key <text>', 'two signals of one job with the same key are one')
    .action((id: string, name: string, flags: SignalFlags) => signal(cli, { id, name }, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { id, woken } as JSON' })
  addExamples(command, [
    ['holdfast jobs explain 3e8a74', 'what does it wait for?'],
    ['holdfast jobs signal 3e8a74 approved', 'go on'],
    [`holdfast jobs signal 3e8a74 approved --value '{"by":"ada"}'`, 'with a value for its handler'],
  ])
}

async function signal(
  cli: Cli,
  typed: { readonly id: string; readonly name: string },
  flags: SignalFlags,
): Promise<void> {
  const value = flags.value === undefined ? null : await readPayload(flags.value)
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findJobId(holdfast, typed.id)
    const sent = await holdfast.signal(id, typed.name, value, { ...byOption(flags), ...given({ key: flags.key }) })
    if (flags.json === true) writeJson(cli, sent)
    else {
      cli.stdout.line(id)
      cli.stderr.line(sent.woken ? 'it goes on' : 'kept: the job does not wait for it yet')
    }
  })
}

const PRINTS = 'Prints the ids of the jobs it changed, or with a filter the id of the bulk action.'

const CANCEL: Act = {
  action: 'cancel',
  past: 'cancelled',
  one: async (holdfast, id, by) => ({ result: (await holdfast.cancel(id, by)).result }),
}

function addCancel(parent: Command, cli: Cli): void {
  const command = parent
    .command('cancel')
    .summary('cancel jobs')
    .description(`Cancels jobs: waiting ones immediately, running ones by notifying their worker. ${PRINTS}`)
    .action((ids: readonly string[], flags: ActFlags) => actOnJobs(cli, CANCEL, ids, flags))
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs cancel 3e8a74', 'one'],
    ["holdfast jobs cancel --filter 'queue:mail tag:campaign-7' --dry-run", 'how many would it be?'],
    ["holdfast jobs cancel --filter 'queue:mail tag:campaign-7' --yes", 'do it, in a script'],
  ])
}

function addRequeue(parent: Command, cli: Cli): void {
  const command = parent
    .command('requeue')
    .summary('run dead jobs again')
    .description(
      `Requeues dead jobs: their attempts start again at 0, and they take their idempotency keys again. ${PRINTS}`,
    )
    .action((ids: readonly string[], flags: ActFlags) => actOnJobs(cli, REQUEUE, ids, flags))
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs requeue 3e8a74 9c01fe', 'two'],
    [`holdfast jobs requeue --filter 'type:send_* error:"HTTP 503"' --dry-run`, 'how many would it be?'],
    ["holdfast jobs requeue --filter 'queue:mail' --per-second 50 --yes", 'slowly'],
  ])
}

const DISCARD: Act = {
  action: 'discard',
  past: 'discarded',
  only: { states: ['dead'] },
  one: async (holdfast, id, by) => {
    await holdfast.discard(id, by)
    return { result: 'discarded' }
  },
}

function addDiscard(parent: Command, cli: Cli): void {
  const command = parent
    .command('discard')
    .summary('take dead jobs out of the dead-letter queue')
    .description(`Discards dead jobs: they become cancelled, and are deleted after their retention. ${PRINTS}`)
    .action((ids: readonly string[], flags: ActFlags) => actOnJobs(cli, DISCARD, ids, flags))
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs discard 3e8a74', 'one'],
    ["holdfast jobs discard --filter 'state:dead finished:>30d' --dry-run", 'how many are that old?'],
  ])
}

interface DeleteFlags extends ActFlags {
  readonly cancel?: boolean
}

const deleting = ({ cancel = false }: DeleteFlags): Act => ({
  action: 'delete',
  past: 'deleted',
  one: async (holdfast, id, by) => {
    const { result } = await holdfast.delete(id, { ...by, cancel })
    if (result !== 'asked') return { result }
    throw new HoldfastError(
      'wrong_state',
      `job ${id} is not deleted yet: it is running, and its worker was asked to stop it; delete it again when it has ended`,
      { details: { id } },
    )
  },
})

function addDelete(parent: Command, cli: Cli): void {
  const command = parent
    .command('delete')
    .summary('delete jobs with their payloads')
    .description(
      `Deletes jobs with everything that is known of them: payload, result, errors, logs, steps, output. Waiting ones are cancelled first; running ones are refused. It cannot be undone. ${PRINTS}`,
    )
    .option('--cancel', 'by id: ask the worker of a running job to stop it; delete it again when it has')
    .action((ids: readonly string[], flags: DeleteFlags) => actOnJobs(cli, deleting(flags), ids, flags))
  addActOptions(command)
  addExamples(command, [
    ['holdfast jobs delete 3e8a74', 'one'],
    ["holdfast jobs delete --filter 'tag:customer-42' --dry-run", 'how many know of a person?'],
    ["holdfast jobs delete --filter 'tag:customer-42' --yes --by ada", 'forget them; the audit log has the filter'],
  ])
}

function addRunAgain(parent: Command, cli: Cli): void {
  const command = parent
    .command('run-again')
    .summary('enqueue a new job like one that has finished')
    .description('Enqueues a new job with what a finished one was given, and prints its id.')
    .argument('<id>', ID_HELP)
    .action((id: string, flags: RunAgainFlags) => runAgain(cli, id, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { id, created, state } as JSON' })
  addExamples(command, [['holdfast jobs run-again 3e8a74', 'once more, as a job of its own']])
}

interface RunAgainFlags extends StoreFlags, ActorFlags {}

async function runAgain(cli: Cli, typed: string, flags: RunAgainFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { id, created, state } = await holdfast.runAgain(await findJobId(holdfast, typed), byOption(flags))
    if (flags.json === true) writeJson(cli, { id, created, state })
    else cli.stdout.line(id)
  })
}
