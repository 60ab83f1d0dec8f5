// holdfast schedules: jobs that a cron expression enqueues.

import { type Command, Option } from 'commander'
import { defineJob } from '../../client/define-job.js'
import type { ScheduleOptions, ScheduleStatus } from '../../client/schedules.js'
import { parseCron } from '../../core/cron.js'
import type { Duration } from '../../core/duration.js'
import { given } from '../../core/given.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import {
  collect,
  type DurationOrUnlimited,
  duration,
  durationOrUnlimited,
  limitOf,
  wholeNumber,
} from '../input/arguments.js'
import { addYesOption, type ConfirmFlags, confirm } from '../input/confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { shortId } from '../input/ids.js'
import { readPayload } from '../input/payload.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../output/table.js'
import { momentText, spanText, whenText } from '../output/times.js'

const NAME_HELP = "the schedule's name"

export function addSchedules(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'schedules',
    summary: 'look at schedules and change them',
    description: 'Schedules: jobs that a cron expression enqueues.',
    examples: [
      ["holdfast schedules add nightly '0 3 * * *' report --zone Europe/Berlin", 'every night at three'],
      ['holdfast schedules next nightly', 'when is that?'],
    ],
    commands: [addAdd, addList, addNext, addTicks, addBackfill, addRun, addPause, addResume, addRemove],
  })
}

interface AddFlags extends StoreFlags, ActorFlags {
  readonly zone?: string
  readonly queue?: string
  readonly priority?: number
  readonly tag?: readonly string[]
  readonly catchUp?: string
  readonly catchUpMax?: number
  readonly overlap?: string
  readonly maxAttempts?: number
  readonly timeout?: DurationOrUnlimited
  readonly maxAge?: Duration
}

function addAdd(parent: Command, cli: Cli): void {
  const command = parent
    .command('add')
    .summary('make a schedule, or change an existing one')
    .description(
      'Makes a schedule, or changes the one of that name: options that are left out keep their values. With another type ' +
        'they go back to the defaults. Prints its name.',
    )
    .argument('<name>', NAME_HELP)
    .argument('<cron>', 'five fields (minute, hour, day, month, weekday), or six with seconds in front')
    .argument('<type>', 'the type of its jobs')
    .argument('[payload]', 'the payload of its jobs: JSON, or - to read it from stdin (default: null)')
    .option('--zone <name>', 'IANA time zone of the cron expression (default: UTC)')
    .option('--queue <name>', 'the queue of its jobs (default: default)')
    .option('--priority <number>', 'the priority of its jobs', wholeNumber)
    .option('--tag <text>', 'a tag of its jobs; may be repeated', collect)
    .addOption(
      new Option('--catch-up <how>', 'what to do about missed ticks (default: latest)').choices([
        'skip',
        'latest',
        'all',
      ]),
    )
    .option('--catch-up-max <number>', 'how many missed ticks `all` fires at most (default: 100)', wholeNumber)
    .addOption(
      new Option('--overlap <how>', 'a tick while an earlier job is unfinished (default: allow)').choices([
        'allow',
        'skip',
      ]),
    )
    .option('--max-attempts <number>', 'how often each job is tried', wholeNumber)
    .option('--timeout <duration>', 'how long one attempt may run, or `unlimited`', durationOrUnlimited)
    .option('--max-age <duration>', 'an older job becomes dead instead of running', duration)
    .action((name: string, cron: string, type: string, payload: string | undefined, flags: AddFlags) =>
      add(cli, { name, cron, type, payload }, flags),
    )
  addByOption(command)
  addStoreOptions(command, { json: 'print { schedule } as JSON' })
  addExamples(command, [
    ["holdfast schedules add nightly '0 3 * * *' report --zone Europe/Berlin", 'every night at three'],
    [`holdfast schedules add tick '*/10 * * * * *' ping '{"host":"a"}' --overlap skip`, 'every ten seconds'],
  ])
}

interface Asked {
  readonly name: string
  readonly cron: string
  readonly type: string
  readonly payload: string | undefined
}

async function add(cli: Cli, { name, cron, type, payload: text }: Asked, flags: AddFlags): Promise<void> {
  const { zone, queue, priority, tag: tags, catchUp, catchUpMax, overlap, maxAttempts, timeout, maxAge } = flags
  const payload = text === undefined ? undefined : await readPayload(text)
  const options = given({
    ...{
      cron,
      payload,
      zone,
      queue,
      priority,
      tags,
      catchUp,
      catchUpMax,
      overlap,
      maxAttempts,
      timeout: limitOf(timeout),
      maxAge,
    },
  })
  await withStore(flags, { mustExist: false }, async (holdfast) => {
    const known = (await holdfast.schedules()).find((schedule) => schedule.name === name && schedule.type === type)
    const kept = known === undefined ? { job: type, payload: null } : optionsOf(known)
    const schedule = await holdfast.schedule(name, { ...kept, ...options } as ScheduleOptions, byOption(flags))
    if (flags.json === true) {
      writeJson(cli, { schedule })
      return
    }
    cli.stdout.line(name)
    if (schedule.nextAt !== null) cli.stderr.line(`fires next at ${momentText(schedule.nextAt)}`)
  })
}

/** The options that would make this schedule again, so that a command can change some of them and keep the others. */
function optionsOf(schedule: ScheduleStatus): ScheduleOptions {
  const { cron, zone, type, version, payload, queue, priority, tags, catchUp, catchUpMax, overlap, limits } = schedule
  const { maxAttempts, retry: policy, timeoutMs: timeout, maxAgeMs: maxAge } = limits
  // The payload stays as it was written, so it stays at the version it was written for.
  const job = defineJob(type, { version })
  const retry = policy && { backoff: policy.backoff, base: policy.baseMs, cap: policy.capMs, jitter: policy.jitter }
  const limitOptions = given({ maxAttempts, retry, timeout, maxAge }) as Partial<ScheduleOptions>
  return { cron, zone, job, payload, queue, priority, tags, catchUp, catchUpMax, overlap, ...limitOptions }
}

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

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list schedules')
    .description('Lists every schedule: when it fires next, when it last fired, and the job it made then.')
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

interface NextFlags extends StoreFlags {
  readonly cron?: string
  readonly zone?: string
  readonly count: number
}

const COUNT_MAX = 1_000

function addNext(parent: Command, cli: Cli): void {
  const command = parent
    .command('next')
    .summary('show when a schedule fires next')
    .description(
      "Shows the next times of a schedule in UTC, in the schedule's time zone and in yours. With --cron it shows those of " +
        'an expression and needs no store.',
    )
    .argument('[name]', NAME_HELP)
    .option('--cron <fields>', 'an expression instead of a schedule')
    .option('--zone <name>', 'IANA time zone of the expression (default: UTC)')
    .option('--count <number>', `how many times, up to ${COUNT_MAX.toLocaleString('en')}`, wholeNumber, 5)
    .action((name: string | undefined, flags: NextFlags) => next(cli, name, flags))
  addStoreOptions(command, { json: 'print { cron, zone, times } as JSON' })
  addExamples(command, [
    ['holdfast schedules next nightly', 'the next five'],
    [
      "holdfast schedules next --cron '30 2 * * *' --zone Europe/Berlin --count 200",
      'what happens when the clocks change?',
    ],
  ])
}

interface Times {
  readonly cron: string
  readonly zone: string
  readonly times: readonly Date[]
}

async function next(cli: Cli, name: string | undefined, flags: NextFlags): Promise<void> {
  if ((name === undefined) === (flags.cron === undefined)) {
    throw new CliError("give either a schedule's name or --cron")
  }
  if (flags.count < 1 || flags.count > COUNT_MAX) {
    throw new CliError(`--count must be from 1 to ${COUNT_MAX}, got ${flags.count}`)
  }
  const found = name === undefined ? timesOf(flags) : await timesOfSchedule(name, flags)
  if (flags.json === true) writeJson(cli, found)
  else printTimes(cli, found)
}

function timesOf({ cron = '', zone = 'UTC', count }: NextFlags): Times {
  return { cron, zone, times: parseCron(cron, zone).following(Date.now(), count) }
}

function timesOfSchedule(name: string, flags: NextFlags): Promise<Times> {
  return withStore(flags, { mustExist: true }, async (holdfast) => {
    const times = await holdfast.nextRuns(name, flags.count)
    const schedule = (await holdfast.schedules()).find((candidate) => candidate.name === name)
    return { cron: schedule?.cron ?? '', zone: schedule?.zone ?? 'UTC', times }
  })
}

function printTimes(cli: Cli, { zone, times }: Times): void {
  const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const zones = [...new Set([zone, ownZone])].filter((each) => each !== 'UTC')
  for (const time of times) {
    const local = zones.map((each) => `  ${inZone(time, each)}`).join('')
    cli.stdout.line(`${time.toISOString()}${local}  in ${spanText(time.getTime() - Date.now())}`)
  }
}

function inZone(time: Date, zone: string): string {
  const text = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium', timeZone: zone })
  return `${text.format(time)} ${zone}`
}

interface TicksFlags extends StoreFlags {
  readonly limit: number
}

function addTicks(parent: Command, cli: Cli): void {
  const command = parent
    .command('ticks')
    .summary('list the ticks of a schedule that made a job')
    .description('Lists the newest ticks of a schedule with the jobs they made, as long as those are kept.')
    .argument('<name>', NAME_HELP)
    .option('--limit <number>', 'how many, up to 1,000', wholeNumber, 20)
    .action((name: string, flags: TicksFlags) => ticks(cli, name, flags))
  addStoreOptions(command, { json: 'print { ticks } as JSON' })
  addExamples(command, [['holdfast schedules ticks nightly', 'did the last nights work?']])
}

async function ticks(cli: Cli, name: string, flags: TicksFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const found = await holdfast.ticks(name, { limit: flags.limit })
    if (flags.json === true) writeJson(cli, { ticks: found })
    else for (const { tick, jobId, state } of found) cli.stdout.line(`${tick.toISOString()}  ${jobId}  ${state}`)
  })
}

interface BackfillFlags extends StoreFlags, ActorFlags, ConfirmFlags {
  readonly from: string
  readonly to: string
  readonly dryRun?: boolean
}

function addBackfill(parent: Command, cli: Cli): void {
  const command = parent
    .command('backfill')
    .summary('make jobs for ticks that made none')
    .description(
      'Makes a job for each tick of a range that has none, after asking with their number. Repeating it makes none twice.',
    )
    .argument('<name>', NAME_HELP)
    .requiredOption('--from <time>', 'the first moment: 2030-01-31T09:00:00Z')
    .requiredOption('--to <time>', 'the last moment, not in the future')
    .option('--dry-run', 'change nothing, print the ticks without a job')
    .action((name: string, flags: BackfillFlags) => backfill(cli, name, flags))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { ticks, made } as JSON' })
  addExamples(command, [
    [
      'holdfast schedules backfill nightly --from 2030-01-01T00:00:00Z --to 2030-01-08T00:00:00Z --dry-run',
      'which nights?',
    ],
    [
      'holdfast schedules backfill nightly --from 2030-01-01T00:00:00Z --to 2030-01-08T00:00:00Z --yes',
      'do it, in a script',
    ],
  ])
}

async function backfill(cli: Cli, name: string, flags: BackfillFlags): Promise<void> {
  const { from, to } = flags
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const preview = await holdfast.backfill(name, { from, to, dryRun: true })
    const open = preview.ticks.filter(({ jobId }) => jobId === null)
    if (flags.dryRun === true || open.length === 0) {
      if (flags.json === true) writeJson(cli, preview)
      else for (const { tick } of open) cli.stdout.line(tick.toISOString())
      return
    }
    const text = `${open.length} of ${preview.ticks.length} ticks made no job. Make ${open.length === 1 ? 'it' : 'them'}?`
    if (!(await confirm(cli, text, flags))) return
    const done = await holdfast.backfill(name, { from, to, ...byOption(flags) })
    if (flags.json === true) writeJson(cli, done)
    else cli.stderr.line(`${done.made} jobs made`)
  })
}

interface ChangeFlags extends StoreFlags, ActorFlags {}

function addRun(parent: Command, cli: Cli): void {
  const command = parent
    .command('run')
    .summary("enqueue a schedule's job now")
    .description("Enqueues a schedule's job now and prints its id. The next tick of the schedule stays as it is.")
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: ChangeFlags) => run(cli, name, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { id, created, state } as JSON' })
  addExamples(command, [
    ['holdfast schedules run nightly', 'do not wait for the night'],
    ['holdfast jobs tail "$(holdfast schedules run nightly)"', 'and follow it'],
  ])
}

async function run(cli: Cli, name: string, flags: ChangeFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const result = await holdfast.runSchedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, result)
    else cli.stdout.line(result.id)
  })
}

function addPause(parent: Command, cli: Cli): void {
  const command = parent
    .command('pause')
    .summary('stop a schedule from firing')
    .description('Pauses a schedule: it does not fire until it is resumed.')
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: ChangeFlags) => setPaused(cli, name, flags, true))
  addByOption(command)
  addStoreOptions(command, { json: 'print { schedule, paused } as JSON' })
  addExamples(command, [['holdfast schedules pause nightly', 'it enqueues no job']])
}

function addResume(parent: Command, cli: Cli): void {
  const command = parent
    .command('resume')
    .summary('let a paused schedule fire again')
    .description('Resumes a schedule from its next tick on. Ticks that fell into the pause are not made up.')
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: ChangeFlags) => setPaused(cli, name, flags, false))
  addByOption(command)
  addStoreOptions(command, { json: 'print { schedule, paused } as JSON' })
  addExamples(command, [['holdfast schedules resume nightly', 'from its next tick on']])
}

async function setPaused(cli: Cli, name: string, flags: ChangeFlags, paused: boolean): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    if (paused) await holdfast.pauseSchedule(name, byOption(flags))
    else await holdfast.resumeSchedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { schedule: name, paused })
    else cli.stderr.line(`schedule ${name} is ${paused ? 'paused' : 'resumed'}`)
  })
}

interface RemoveFlags extends ChangeFlags, ConfirmFlags {}

function addRemove(parent: Command, cli: Cli): void {
  const command = parent
    .command('remove')
    .summary('remove a schedule')
    .description('Removes a schedule. The jobs it made stay.')
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: RemoveFlags) => remove(cli, name, flags))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { removed } as JSON' })
  addExamples(command, [
    ['holdfast schedules remove nightly', 'asks first'],
    ['holdfast schedules remove nightly --yes', 'in a script'],
  ])
}

async function remove(cli: Cli, name: string, flags: RemoveFlags): Promise<void> {
  if (!(await confirm(cli, `Remove schedule ${name}?`, flags))) return
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await holdfast.unschedule(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { removed: name })
    else cli.stderr.line(`schedule ${name} is removed`)
  })
}
