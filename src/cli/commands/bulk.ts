// holdfast bulk: actions on many jobs, in progress and ended.

import type { Command } from 'commander'
import { formatFilter } from '../../core/filter-format.js'
import type { BulkState, BulkView } from '../../core/operating.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { EXIT } from '../exit-codes.js'
import { exitCodeOfBulk, followBulk, getBulk, isOver } from '../follow-bulk.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { wholeNumber } from '../input/arguments.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { findBulkId, shortId } from '../input/ids.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../output/table.js'
import { type Format, visible } from '../output/terminal.js'
import { whenText } from '../output/times.js'

const ID_HELP = 'its id, or the last 6 to 12 characters of it'

export function addBulk(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'bulk',
    summary: 'look at bulk actions and end them',
    description:
      'Bulk actions: what `jobs cancel`, `jobs requeue`, `jobs discard` or `dlq requeue` started with a filter. Every process ' +
      'that does upkeep works on them, in batches.',
    examples: [
      ['holdfast bulk list', 'how far they are'],
      ['holdfast bulk show 3e8a74 --wait', 'follow one to its end'],
    ],
    commands: [addList, addShow, addCancel],
  })
}

const FORMATS: Readonly<Record<BulkState, Format>> = {
  waiting: 'cyan',
  running: 'blue',
  done: 'green',
  cancelled: 'dim',
  failed: 'red',
}

const COLUMNS: readonly Column<BulkView>[] = [
  { name: 'id', text: ({ id }, { isShort }) => (isShort ? shortId(id) : id) },
  { name: 'state', text: ({ state }) => state, format: ({ state }) => FORMATS[state] },
  { name: 'action', text: ({ action }) => action },
  { name: 'done', text: ({ done }) => done.toLocaleString('en'), side: 'right' },
  { name: 'refused', text: ({ refused }) => refused.toLocaleString('en'), side: 'right' },
  {
    name: 'expected',
    text: ({ expected }) =>
      expected === null ? '-' : `${expected.isExact ? '' : '≥'}${expected.count.toLocaleString('en')}`,
    side: 'right',
  },
  { name: 'by', text: ({ by }) => by, isLong: true },
  { name: 'created', isSpare: true, text: ({ createdAt }, look) => whenText(createdAt, look) },
  { name: 'updated', text: ({ updatedAt }, look) => whenText(updatedAt, look), isExtra: true },
  { name: 'pace', text: ({ perSecond }) => (perSecond === null ? '-' : `${perSecond}/s`), isExtra: true },
  { name: 'filter', text: ({ filter }) => formatFilter(filter), isLong: true },
  { name: 'error', text: ({ error }) => error ?? '-', isExtra: true },
]

interface BulkListFlags extends ListFlags {
  readonly limit: number
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list bulk actions')
    .description('Lists the newest bulk actions and how far they are.')
    .option('--limit <number>', 'how many at most, up to 200', wholeNumber, 20)
    .action((flags: BulkListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { bulks } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [['holdfast bulk list', 'the newest']])
}

async function list(cli: Cli, flags: BulkListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.bulks({ limit: flags.limit })
    printListing(cli, flags, { name: 'bulks', rows, columns: COLUMNS, empty: 'there is no bulk action' })
  })
}

interface ShowFlags extends StoreFlags {
  readonly wait?: boolean
}

function addShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one bulk action')
    .description('Shows how far a bulk action is.')
    .argument('<id>', ID_HELP)
    .option('--wait', 'wait for its end; exits with 6 when jobs were refused, 5 when it was cancelled')
    .action((id: string, flags: ShowFlags) => show(cli, id, flags))
  addStoreOptions(command, { json: 'print { bulk } as JSON' })
  addExamples(command, [
    ['holdfast bulk show 3e8a74', 'how far it is'],
    ['holdfast bulk show 3e8a74 --wait', 'until it is done'],
  ])
}

async function show(cli: Cli, typed: string, flags: ShowFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findBulkId(holdfast, typed)
    const found = await getBulk(holdfast, id)
    const bulk = flags.wait === true ? await followBulk(cli, holdfast, id, flags) : found
    if (flags.json === true) writeJson(cli, { bulk })
    else print(cli, bulk)
    if (flags.wait === true) process.exitCode = isOver(bulk) ? exitCodeOfBulk(bulk) : EXIT.interrupted
  })
}

function print({ stdout }: Cli, bulk: BulkView): void {
  for (const { name, text } of COLUMNS) {
    const value = visible(text(bulk, { isShort: false }))
    const shown = name === 'state' ? stdout.style(FORMATS[bulk.state], value) : value
    stdout.line(`${stdout.style('dim', name.padEnd(9))} ${shown}`)
  }
}

interface CancelFlags extends StoreFlags, ActorFlags {}

function addCancel(parent: Command, cli: Cli): void {
  const command = parent
    .command('cancel')
    .summary('end a bulk action')
    .description('Ends a bulk action. The jobs it has changed stay changed. Exits with 5 when it had already ended.')
    .argument('<id>', ID_HELP)
    .action((id: string, flags: CancelFlags) => cancel(cli, id, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { bulk } as JSON' })
  addExamples(command, [['holdfast bulk cancel 3e8a74', 'no further batch']])
}

async function cancel(cli: Cli, typed: string, flags: CancelFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findBulkId(holdfast, typed)
    const bulk = await holdfast.cancelBulk(id, byOption(flags))
    const jobs = bulk.done === 1 ? '1 job' : `${bulk.done.toLocaleString('en')} jobs`
    if (flags.json === true) writeJson(cli, { bulk })
    else cli.stderr.line(`bulk action ${id} is ${bulk.state}; it changed ${jobs}`)
    if (bulk.state !== 'cancelled') process.exitCode = EXIT.conflict
  })
}
