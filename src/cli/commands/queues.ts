// holdfast queues: look at queues, pause them, and set the limits of their jobs and their flow control.

import { type Command, Option } from 'commander'
import type { QueueOptions } from '../../client/job-actions.js'
import type { Duration } from '../../core/duration.js'
import { given } from '../../core/given.js'
import type { QueueOverview } from '../../core/operating.js'
import type { Backoff, RetryPolicy } from '../../core/retry.js'
import type { QueueSettings, QueueStats, WorkerView } from '../../core/views.js'
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
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { addQueueFlowOptions, mergeQueueFlow, type QueueFlowFlags } from '../input/flow-flags.js'
import { findQueue, requireQueues } from '../input/queue-names.js'
import { lacksWorker, QUEUE_COLUMNS, rateText } from '../output/columns.js'
import { queueFlowFacts } from '../output/flow.js'
import { type Fact, factLines } from '../output/job.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type ListFlags, printListing } from '../output/table.js'
import { visible } from '../output/terminal.js'
import { spanText } from '../output/times.js'
import { whatHolds } from '../queue-holds.js'

export function addQueues(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'queues',
    summary: 'look at queues, pause them, set their limits',
    description: 'Look at queues, pause them, and set the limits of their jobs and their flow control.',
    examples: [
      ['holdfast queues list', 'how many jobs each has, and how many workers'],
      ['holdfast queues pause mail', 'no worker claims from it until it is resumed'],
    ],
    commands: [addList, addShow, addPause, addResume, addSet, addRemove],
  })
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list queues')
    .description(
      'Lists every queue: how many jobs are in each state, how long the oldest ready job has waited, how many live workers ' +
        'serve it, and how many jobs came in, succeeded and failed each second of the last minute.',
    )
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { queues, isExact, nowMs } as JSON' })
  addTableOptions(command, QUEUE_COLUMNS)
  addExamples(command, [
    ['holdfast queues list', 'every queue'],
    ['holdfast queues list --columns queue,ready,oldest --no-header', 'for a script'],
  ])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { queues, isExact, nowMs } = await holdfast.overview()
    const empty = 'there is no queue yet: `holdfast enqueue` makes one'
    const rows = [...queues].sort((one, other) => one.name.localeCompare(other.name))
    printListing(cli, flags, { name: 'queues', rows, columns: QUEUE_COLUMNS, more: { isExact, nowMs }, empty })
    if (flags.json === true || flags.jsonl === true) return
    if (!isExact) cli.stderr.line('large counts are estimates')
    for (const { name } of rows.filter(lacksWorker)) {
      cli.stderr.line(`${cli.stderr.style('yellow', 'warning:')} queue ${name} has ready jobs and no live worker`)
    }
  })
}

function addShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one queue')
    .description(
      'Shows one queue: its counts and rates, the limits it sets for its jobs, its flow control and what holds it up now, the ' +
        'workers that serve it.',
    )
    .argument('<queue>', 'its name')
    .action((name: string, flags: StoreFlags) => show(cli, name, flags))
  addStoreOptions(command, { json: 'print { queue, stats, workers, holds } as JSON' })
  addExamples(command, [
    ['holdfast queues show mail', 'everything about it'],
    ["holdfast queues show mail --json | jq '.stats.oldestAgeS'", 'one number for a script'],
  ])
}

async function show(cli: Cli, name: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const [known] = (await holdfast.overview({ queues: [name] })).queues
    const queue = known ?? findQueue((await holdfast.overview()).queues, name)
    const stats = await holdfast.stats(name)
    const workers = (await holdfast.workers()).filter(({ queues }) => queues.includes(name))
    const holds = await whatHolds(holdfast, queue, stats)
    if (flags.json === true) writeJson(cli, { queue, stats, workers, holds })
    else for (const line of describe(cli, queue, { stats, workers, holds })) cli.stdout.line(line)
  })
}

interface Around {
  readonly stats: QueueStats
  readonly workers: readonly WorkerView[]
  readonly holds: readonly string[]
}

function describe({ stdout }: Cli, queue: QueueOverview, { stats, workers, holds }: Around): string[] {
  const state = queue.paused ? stdout.style('yellow', 'paused') : stdout.style('green', 'active')
  const count = (number: number) => `${stats.isExact ? '' : 'about '}${number.toLocaleString('en')}`
  const oldest = stats.ready === 0 ? '' : `, the oldest for ${spanText(stats.oldestAgeS * 1_000)}`
  const { rates } = queue
  const facts: readonly Fact[] = [
    ['ready', `${count(stats.ready)}${oldest}`],
    ...(['running', 'scheduled', 'retrying', 'blocked', 'dead'] as const).map((of): Fact => [of, count(stats[of])]),
    ['rates', `${rateText(rates.enqueued)} in, ${rateText(rates.succeeded)} done, ${rateText(rates.failed)} failed`],
    ['attempts', `99 % of jobs need at most ${stats.attemptsP99}`],
    ...settingFacts(queue.settings),
    ...holds.map((line, index): Fact => [index === 0 ? 'held up by' : '', line]),
    ['workers', `${queue.workers} live, ${queue.slots} slots`],
    ...workers.map(({ id, running, concurrency }): Fact => ['', `${id}, ${running} of ${concurrency} slots busy`]),
  ]
  return [`${stdout.style('bold', visible(queue.name))}  ${state}`, ...factLines(stdout, facts, 12)]
}

function settingFacts({ limits, retentionMs, flow, spread }: QueueSettings): readonly Fact[] {
  const { maxAttempts, timeoutMs, maxAgeMs, retry } = limits
  const span = (ms: number | null | undefined) => (ms === null ? 'unlimited' : ms === undefined ? null : spanText(ms))
  return [
    ['max attempts', maxAttempts === undefined ? null : String(maxAttempts)],
    ['timeout', span(timeoutMs)],
    ['max age', span(maxAgeMs)],
    ['retry', retry === undefined ? null : retryText(retry)],
    ['retention', span(retentionMs)],
    ['spread', spread === undefined ? null : `over ${spread} shards, in order within each`],
    ...queueFlowFacts(flow),
  ]
}

function retryText({ backoff, baseMs, capMs, jitter }: RetryPolicy): string {
  const waits = typeof backoff === 'string' ? `${backoff} from ${spanText(baseMs)}` : backoff.map(spanText).join(', ')
  return `${waits}, at most ${spanText(capMs)}, ${jitter ? 'with' : 'without'} jitter`
}

interface ChangeFlags extends StoreFlags, ActorFlags {
  readonly create?: boolean
}

const CREATE_OPTION = ['--create', 'make the queue if it does not exist'] as const

function addPause(parent: Command, cli: Cli): void {
  const command = parent
    .command('pause')
    .summary('stop workers from claiming from a queue')
    .description(
      'Pauses queues: they accept jobs, but no worker of any process claims from them until they are resumed. Running jobs ' +
        'continue.',
    )
    .argument('<queues...>', 'their names')
    .action((queues: readonly string[], flags: ChangeFlags) => setPaused(cli, queues, flags, true))
  addByOption(command).option(...CREATE_OPTION)
  addStoreOptions(command, { json: 'print { queues } as JSON' })
  addExamples(command, [
    ['holdfast queues pause mail', 'no worker claims from it'],
    ['holdfast queues pause import --create', 'before its first job'],
  ])
}

function addResume(parent: Command, cli: Cli): void {
  const command = parent
    .command('resume')
    .summary('let workers claim from a paused queue again')
    .description('Resumes paused queues.')
    .argument('<queues...>', 'their names')
    .action((queues: readonly string[], flags: ChangeFlags) => setPaused(cli, queues, flags, false))
  addByOption(command)
  addStoreOptions(command, { json: 'print { queues } as JSON' })
  addExamples(command, [['holdfast queues resume mail', 'workers claim from it again']])
}

async function setPaused(cli: Cli, queues: readonly string[], flags: ChangeFlags, paused: boolean): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    if (flags.create !== true) await requireQueues(holdfast, queues)
    for (const queue of queues) {
      if (paused) await holdfast.pause(queue, byOption(flags))
      else await holdfast.resume(queue, byOption(flags))
      if (flags.json !== true) cli.stderr.line(`queue ${queue} is ${paused ? 'paused' : 'resumed'}`)
    }
    if (flags.json === true) writeJson(cli, { queues: queues.map((name) => ({ name, paused })) })
  })
}

interface SetFlags extends ChangeFlags, QueueFlowFlags {
  readonly maxAttempts?: number
  readonly timeout?: DurationOrUnlimited
  readonly maxAge?: DurationOrUnlimited
  readonly backoff?: Backoff
  readonly backoffBase?: Duration
  readonly backoffCap?: Duration
  readonly jitter?: boolean
  readonly retention?: Duration
  readonly spread?: number
  readonly unset?: readonly string[]
}

const SETTINGS = ['maxAttempts', 'timeout', 'maxAge', 'retry', 'retention'] as const
type Setting = (typeof SETTINGS)[number]

/** As it is typed: max-attempts. */
const typed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
const SETTINGS_TYPED = SETTINGS.map(typed).join(', ')

function addSet(parent: Command, cli: Cli): void {
  const command = parent
    .command('set')
    .summary('set the limits of the jobs of a queue, and its flow control')
    .description(
      'Sets limits for the jobs of a queue that have none of their own, and flow control: how many jobs of it and of each of ' +
        'its groups run and start, and how many may wait. Settings that are not named stay.',
    )
    .argument('<queue>', 'its name')
    .option('--max-attempts <number>', 'how often a job is tried', wholeNumber)
    .option('--timeout <duration>', 'how long one attempt may run, or `unlimited`', durationOrUnlimited)
    .option('--max-age <duration>', 'an older job becomes dead instead of running, or `unlimited`', durationOrUnlimited)
    .addOption(
      new Option('--backoff <how>', 'how the wait before a retry grows').choices(['exponential', 'linear', 'fixed']),
    )
    .option('--backoff-base <duration>', 'the wait after the first failure', duration)
    .option('--backoff-cap <duration>', 'the longest wait', duration)
    .option('--no-jitter', 'wait exactly that long, without a random part')
    .option('--retention <duration>', 'how long finished jobs are kept at least', duration)
    .option('--spread <shards>', 'in a Redis Cluster: over how many shards new jobs are spread, 1 to 16', wholeNumber)
    .option('--unset <setting>', `go back to the default of ${SETTINGS_TYPED}; may be repeated`, collect)
    .action((queue: string, flags: SetFlags) => set(cli, queue, flags))
  // Commander's default is true. Here undefined means that --no-jitter was not given.
  command.setOptionValueWithSource('jitter', undefined, 'default')
  addByOption(command).option(...CREATE_OPTION)
  addQueueFlowOptions(command)
  addStoreOptions(command, { json: 'print { queue } as JSON' })
  addExamples(command, [
    ['holdfast queues set mail --max-attempts 5 --timeout 30s', 'for every job without limits of its own'],
    ['holdfast queues set mail --backoff fixed --backoff-base 10s', 'try again every ten seconds'],
    ['holdfast queues set mail --unset timeout', 'back to the default'],
    ['holdfast queues set mail --concurrency 50 --rate 500/s --group-concurrency 2', 'flow control'],
    ['holdfast queues set mail --rate none', 'without a rate again'],
  ])
}

async function set(cli: Cli, name: string, flags: SetFlags): Promise<void> {
  const unset = (flags.unset ?? []).map(readSetting)
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    if (flags.create !== true) await requireQueues(holdfast, [name])
    const known = (await holdfast.queues()).find((queue) => queue.name === name)
    const options = merge(known?.settings ?? { limits: {} }, flags, unset)
    const flow = mergeQueueFlow(known?.settings.flow, flags)
    await holdfast.setQueue(name, { ...options, ...flow, ...given({ spread: flags.spread }) }, byOption(flags))
    const queue = (await holdfast.queues()).find((candidate) => candidate.name === name)
    if (flags.json === true) writeJson(cli, { queue })
    else cli.stderr.line(`queue ${name}: ${settingsText(queue!.settings)}`)
  })
}

function settingsText(settings: QueueSettings): string {
  const facts = settingFacts(settings).filter(([, fact]) => fact !== null)
  return facts.length === 0 ? 'every limit is the default' : facts.map(([label, fact]) => `${label} ${fact}`).join(', ')
}

function readSetting(text: string): Setting {
  const setting = SETTINGS.find((candidate) => typed(candidate) === text)
  if (setting !== undefined) return setting
  throw new CliError(`--unset must be one of ${SETTINGS_TYPED}, got ${JSON.stringify(text)}`, {
    hint: 'flow control is taken away with `none`, as in --rate none',
  })
}

/** The settings of the queue, changed by the flags. */
function merge({ limits, retentionMs }: QueueSettings, flags: SetFlags, unset: readonly Setting[]): QueueOptions {
  const { backoff, backoffBase: base, backoffCap: cap, jitter } = flags
  const old = limits.retry
  const changed = given({ backoff, base, cap, jitter })
  const kept = old === undefined ? {} : { backoff: old.backoff, base: old.baseMs, cap: old.capMs, jitter: old.jitter }
  const retry = { ...kept, ...changed }
  const all: Record<Setting, unknown> = {
    maxAttempts: flags.maxAttempts ?? limits.maxAttempts,
    timeout: flags.timeout === undefined ? limits.timeoutMs : limitOf(flags.timeout),
    maxAge: flags.maxAge === undefined ? limits.maxAgeMs : limitOf(flags.maxAge),
    retry: Object.keys(retry).length === 0 ? undefined : retry,
    retention: flags.retention ?? retentionMs,
  }
  return Object.fromEntries(
    Object.entries(given(all)).filter(([setting]) => !unset.includes(setting as Setting)),
  ) as QueueOptions
}

function addRemove(parent: Command, cli: Cli): void {
  const command = parent
    .command('remove')
    .summary('remove a queue that has no jobs')
    .description(
      'Removes queues with their settings. Refused while a queue has unfinished or dead jobs. The next job enqueued to a ' +
        'removed queue makes it again.',
    )
    .argument('<queues...>', 'their names')
    .action((queues: readonly string[], flags: ChangeFlags) => remove(cli, queues, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { removed } as JSON' })
  addExamples(command, [['holdfast queues remove mail', 'it is no longer listed']])
}

async function remove(cli: Cli, queues: readonly string[], flags: ChangeFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await requireQueues(holdfast, queues)
    for (const queue of queues) {
      await holdfast.removeQueue(queue, byOption(flags))
      if (flags.json !== true) cli.stderr.line(`queue ${queue} is removed`)
    }
    if (flags.json === true) writeJson(cli, { removed: queues })
  })
}
