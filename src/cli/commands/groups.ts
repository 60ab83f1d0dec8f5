// holdfast groups: the tenants or entities of a queue that take turns. Who waits, who is stopped, and settings of single ones.

import type { Command } from 'commander'
import type { GroupView } from '../../core/flow/views.js'
import { given } from '../../core/given.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { wholeNumber } from '../input/arguments.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { addGroupSettingOptions, type GroupFlags, mergeOverride } from '../input/flow-flags.js'
import { findQueue, requireQueues } from '../input/queue-names.js'
import { groupColumns, groupState, overrideText, queueFlowFacts } from '../output/flow.js'
import { factLines } from '../output/job.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type ListFlags, printListing } from '../output/table.js'
import { visible } from '../output/terminal.js'
import { momentText } from '../output/times.js'

const QUEUE_HELP = 'the queue they belong to'

export function addGroups(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'groups',
    summary: 'look at groups of a queue, set and pause them',
    description:
      'Groups: the tenants or entities that jobs of a queue belong to. They take turns, and need no setting up. What holds for ' +
      'each of them is set with `holdfast queues set --group-concurrency` and its neighbours.',
    examples: [
      ['holdfast groups list billing', 'who has jobs, who is stopped'],
      ['holdfast groups set billing acme --concurrency 10 --weight 3', 'one that is not like the others'],
      ['holdfast groups resume billing acme', 'after a job of an ordered group died'],
    ],
    commands: [addList, addShow, addSet, addClear, addPause, addResume],
  })
}

interface GroupsFlags extends ListFlags {
  readonly prefix?: string
  readonly cursor?: string
  readonly limit: number
  readonly own?: boolean
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list groups of a queue by name')
    .description(
      'Lists the groups of a queue that have ready or running jobs, are paused, or have settings of their own.',
    )
    .argument('<queue>', QUEUE_HELP)
    .option('--prefix <text>', 'those whose names begin with it')
    .option('--own', 'only those that are paused, stopped, or have settings of their own')
    .option('--limit <number>', 'how many at most, up to 200', wholeNumber, 50)
    .option('--cursor <group>', 'continue where an earlier list ended')
    .action((queue: string, flags: GroupsFlags) => list(cli, queue, flags))
  addStoreOptions(command, { json: 'print { groups, cursor } as JSON' })
  addTableOptions(command, groupColumns(0))
  addExamples(command, [
    ['holdfast groups list billing', 'by name'],
    ['holdfast groups list billing --own', 'those that somebody has set, paused or stopped'],
    ["holdfast groups list billing --jsonl | jq -r 'select(.stoppedBy) | .group'", 'stopped by a dead job'],
  ])
}

async function list(cli: Cli, queue: string, flags: GroupsFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await requireQueues(holdfast, [queue])
    const { prefix, cursor: after, limit, own } = flags
    const { groups, cursor } = await holdfast.groups(queue, { limit, ...given({ prefix, cursor: after, own }) })
    const empty = own === true ? 'no group is paused or has settings of its own' : 'no group has jobs or settings'
    const columns = groupColumns(Date.now())
    printListing(cli, flags, { name: 'groups', rows: groups, columns, more: { cursor }, empty })
    if (flags.json === true || flags.jsonl === true || cursor === null) return
    cli.stderr.line(`there are more: continue with --cursor ${JSON.stringify(visible(cursor))}`)
  })
}

function addShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one group')
    .description('Shows one group: its jobs, what keeps it from going on, its own settings and those of its queue.')
    .argument('<queue>', QUEUE_HELP)
    .argument('<group>', 'its name')
    .action((queue: string, group: string, flags: StoreFlags) => show(cli, queue, group, flags))
  addStoreOptions(command, { json: 'print { queue, group } as JSON' })
  addExamples(command, [['holdfast groups show billing acme', 'everything about it']])
}

async function show(cli: Cli, queue: string, name: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { settings } = findQueue(await holdfast.queues(), queue)
    const group = await findGroup(holdfast, queue, name)
    if (flags.json === true) {
      writeJson(cli, { queue, group })
      return
    }
    const { stdout } = cli
    const { state, why, format } = groupState(group, Date.now())
    stdout.line(`${stdout.style('bold', visible(name))}  ${format === null ? state : stdout.style(format, state)}`)
    const ofQueue = queueFlowFacts(settings.flow).find(([label]) => label === 'each group')?.[1] ?? null
    const facts = [
      ['queue', queue],
      ['now', why === '' ? null : why],
      ['ready', group.ready.toLocaleString('en')],
      ['running', group.running.toLocaleString('en')],
      ['told to wait', group.until === null ? null : `until ${momentText(group.until)}`],
      ['own settings', group.override === null ? null : overrideText(group)],
      ['of its queue', ofQueue],
    ] as const
    for (const line of factLines(stdout, facts, 12)) stdout.line(line)
  })
}

/** A group as shown; one without jobs and settings has nothing of either. */
async function findGroup(holdfast: Holdfast, queue: string, name: string): Promise<GroupView> {
  // Names that begin with this one come after it.
  const { groups } = await holdfast.groups(queue, { prefix: name, limit: 1 })
  const nothing = { ready: 0, running: 0, paused: false, stoppedBy: null, until: null, override: null }
  return groups.find(({ group }) => group === name) ?? { group: name, ...nothing }
}

interface SetFlags extends StoreFlags, ActorFlags, GroupFlags {}

function addSet(parent: Command, cli: Cli): void {
  const command = parent
    .command('set')
    .summary('give one group settings of its own')
    .description(
      'Gives one group settings that replace those of its queue. Settings that are not named stay; `none` leaves one to the ' +
        'queue again.',
    )
    .argument('<queue>', QUEUE_HELP)
    .argument('<group>', 'its name; it needs no jobs yet')
    .action((queue: string, group: string, flags: SetFlags) => set(cli, queue, group, flags))
  addGroupSettingOptions(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { queue, group } as JSON' })
  addExamples(command, [
    ['holdfast groups set billing acme --concurrency 10 --weight 3', 'a large customer'],
    ['holdfast groups set billing acme --rate 5/s', 'its concurrency and its weight stay'],
  ])
}

async function set(cli: Cli, queue: string, name: string, flags: SetFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await requireQueues(holdfast, [queue])
    const { override } = await findGroup(holdfast, queue, name)
    await holdfast.setGroup(queue, name, mergeOverride(override, flags), byOption(flags))
    const group = await findGroup(holdfast, queue, name)
    if (flags.json === true) writeJson(cli, { queue, group })
    else cli.stderr.line(`group ${visible(name)} of queue ${queue}: ${overrideText(group)}`)
  })
}

interface ChangeFlags extends StoreFlags, ActorFlags {}

/** What a command does to groups, one after the other. */
interface GroupAct {
  readonly past: string
  readonly make: (holdfast: Holdfast, queue: string, group: string, by: { readonly by: string }) => Promise<void>
}

const CLEAR: GroupAct = {
  past: 'has no settings of its own',
  make: (holdfast, queue, group, by) => holdfast.setGroup(queue, group, null, by),
}
const PAUSE: GroupAct = {
  past: 'is paused',
  make: (holdfast, queue, group, by) => holdfast.pauseGroup(queue, group, by),
}
const RESUME: GroupAct = {
  past: 'is resumed',
  make: (holdfast, queue, group, by) => holdfast.resumeGroup(queue, group, by),
}

function addClear(parent: Command, cli: Cli): void {
  const command = parent
    .command('clear')
    .summary('take the settings of groups away')
    .description('Takes the settings of groups away: those of the queue hold for them again.')
  finish(command, cli, CLEAR)
  addExamples(command, [['holdfast groups clear billing acme', 'like any other group']])
}

function addPause(parent: Command, cli: Cli): void {
  const command = parent
    .command('pause')
    .summary('stop groups from giving jobs')
    .description(
      'Pauses groups: they accept jobs, and none of them starts until they are resumed. Running jobs continue.',
    )
  finish(command, cli, PAUSE)
  addExamples(command, [['holdfast groups pause billing acme', 'the other groups go on']])
}

function addResume(parent: Command, cli: Cli): void {
  const command = parent
    .command('resume')
    .summary('let groups go on that were paused or stopped')
    .description('Resumes groups that were paused, or that stopped because one of their jobs died (--on-dead stop).')
  finish(command, cli, RESUME)
  addExamples(command, [
    ['holdfast jobs requeue 3e8a74 && holdfast groups resume billing acme', 'the dead job first, then the rest'],
  ])
}

function finish(command: Command, cli: Cli, act: GroupAct): void {
  command
    .argument('<queue>', QUEUE_HELP)
    .argument('<groups...>', 'their names')
    .action((queue: string, groups: readonly string[], flags: ChangeFlags) => change(cli, act, queue, groups, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { queue, groups } as JSON' })
}

async function change(
  cli: Cli,
  { past, make }: GroupAct,
  queue: string,
  names: readonly string[],
  flags: ChangeFlags,
): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await requireQueues(holdfast, [queue])
    const groups: GroupView[] = []
    for (const name of names) {
      await make(holdfast, queue, name, byOption(flags))
      groups.push(await findGroup(holdfast, queue, name))
      if (flags.json !== true) cli.stderr.line(`group ${visible(name)} of queue ${queue} ${past}`)
    }
    if (flags.json === true) writeJson(cli, { queue, groups })
  })
}
