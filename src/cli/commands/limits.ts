// holdfast limits: what keeps jobs from starting everywhere, by name; breakers in an operator's hands.

import type { Command } from 'commander'
import { closest } from '../../core/closest.js'
import { isQueueLimit } from '../../core/flow/job-flow.js'
import type { LimitSettings } from '../../core/flow/settings.js'
import type { BreakerView, LimitView } from '../../core/flow/views.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { addYesOption, type ConfirmFlags, confirm } from '../input/confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { addLimitOptions, type LimitFlags, mergeLimit } from '../input/flow-flags.js'
import { breakerSetting, byUrgency, isHolding, limitColumns, rateSetting, standingOf } from '../output/flow.js'
import { type Fact, factLines } from '../output/job.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type ListFlags, printListing } from '../output/table.js'
import { visible } from '../output/terminal.js'
import { momentText } from '../output/times.js'

const NAME_HELP = "the limit's name"

export function addLimits(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'limits',
    summary: 'look at limits, set them, force breakers',
    description:
      'Limits: how many jobs run concurrently and start in a time, by a name that queues and types share. The limit of a ' +
      'queue is set with `holdfast queues set`.',
    examples: [
      ['holdfast limits list', 'what is closed, and why; the worst first'],
      ['holdfast limits set stripe --concurrency 20 --rate 100/s --create', 'for every job that names it'],
      ['holdfast limits open stripe', 'nothing that names it starts until `limits release`'],
    ],
    commands: [addList, addShow, addSet, addRemove, addOpen, addClose, addRelease],
  })
}

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list limits, the worst first')
    .description(
      'Lists every limit, those that keep jobs from starting first: how many jobs run of how many may, the tokens of its ' +
        'rate, its breaker, how long it was told to wait. Limits called queue:<name> belong to queues.',
    )
    .option('--holding', 'only those that keep jobs from starting now')
    .action((flags: ListFlags & { readonly holding?: boolean }) => list(cli, flags))
  addStoreOptions(command, { json: 'print { limits } as JSON, in the same order' })
  addTableOptions(command, limitColumns(0))
  addExamples(command, [
    ['holdfast limits list', 'at a glance'],
    [
      'holdfast limits list --json | jq -r \'.limits[] | select(.breaker.position == "open") | .name\'',
      'open breakers',
    ],
  ])
}

async function list(cli: Cli, flags: ListFlags & { readonly holding?: boolean }): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const nowMs = Date.now()
    const all = byUrgency(await holdfast.limits(), nowMs)
    const rows = flags.holding === true ? all.filter((limit) => isHolding(limit, nowMs)) : all
    const none = 'there is no limit: `holdfast limits set <name> --concurrency 20 --create` makes one'
    const empty = all.length === 0 ? none : 'no limit keeps jobs from starting'
    printListing(cli, flags, { name: 'limits', rows, columns: limitColumns(nowMs), empty })
    if (flags.json === true || flags.jsonl === true) return
    for (const { name } of rows.filter(({ breaker }) => breaker?.forced != null)) {
      cli.stderr.line(`\`holdfast limits release ${visible(name)}\` leaves its breaker to itself again`)
    }
  })
}

function addShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one limit')
    .description('Shows one limit: what it does to its jobs now, its settings, its breaker.')
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: StoreFlags) => show(cli, name, flags))
  addStoreOptions(command, { json: 'print { limit } as JSON' })
  addExamples(command, [
    ['holdfast limits show stripe', 'everything about it'],
    ["holdfast limits show stripe --json | jq '.limit.running'", 'one number for a script'],
  ])
}

async function show(cli: Cli, name: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const limit = await findLimit(holdfast, name)
    if (flags.json === true) writeJson(cli, { limit })
    else for (const line of describe(cli, limit)) cli.stdout.line(line)
  })
}

function describe({ stdout }: Cli, limit: LimitView): string[] {
  const { state, why, format } = standingOf(limit, Date.now())
  const { breaker, until, tokens, rate, running, origin } = limit
  const facts: readonly Fact[] = [
    ['now', why === '' ? null : why],
    ['running', running.toLocaleString('en')],
    ['concurrency', concurrencyText(limit)],
    ['rate', rate === null ? null : `${rateSetting(rate)}; ${tokens?.toLocaleString('en')} tokens now`],
    ['told to wait', until === null ? null : `until ${momentText(until)}`],
    ['breaker', breaker?.settings == null ? null : breakerSetting(breaker.settings)],
    ['position', breaker === null ? null : positionText(breaker)],
    ['forced', breaker?.forced ?? null],
    ['probed', breaker?.probeAt == null ? null : momentText(breaker.probeAt)],
    ['outcomes', breaker?.settings == null ? null : `${breaker.failed} of ${breaker.failed + breaker.ok} failed`],
    ['set by', origin === 'definition' ? 'the definition of its type' : 'an operator'],
  ]
  const head = `${stdout.style('bold', visible(limit.name))}  ${format === null ? state : stdout.style(format, state)}`
  return [head, ...factLines(stdout, facts, 12)]
}

function positionText({ position, since }: BreakerView): string {
  // One that nobody has reported to has been closed since ever.
  const when = since.getTime() === 0 ? '' : ` since ${momentText(since)}`
  return `${position.replace('_', ' ')}${when}`
}

function concurrencyText({ concurrency, adaptive, level }: LimitView): string | null {
  if (adaptive === null) return concurrency === null ? null : concurrency.toLocaleString('en')
  return `${level ?? adaptive.min} now, adapts between ${adaptive.min} and ${adaptive.max}`
}

interface SetFlags extends StoreFlags, ActorFlags, LimitFlags {
  readonly create?: boolean
}

function addSet(parent: Command, cli: Cli): void {
  const command = parent
    .command('set')
    .summary('set a limit')
    .description(
      'Sets a limit. Settings that are not named stay, and `none` takes one away. It holds for every process from the next ' +
        'claim on; when it is lowered, running jobs run to their end. A limit that a definition set is an operator’s from then on.',
    )
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: SetFlags) => set(cli, name, flags))
  addLimitOptions(command)
  addByOption(command).option('--create', 'make the limit if it does not exist')
  addStoreOptions(command, { json: 'print { limit } as JSON' })
  addExamples(command, [
    ['holdfast limits set stripe --concurrency 20 --rate 100/s --create', 'a new one'],
    ['holdfast limits set stripe --concurrency 5', 'its rate and its breaker stay'],
    ['holdfast limits set mailer --concurrency 2-50 --breaker on', 'adapts, and stops while the mailer is down'],
    ['holdfast limits set type:report --rate none', 'what the definition of a type asks for no longer holds'],
  ])
}

async function set(cli: Cli, name: string, flags: SetFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const known = await holdfast.limits()
    const found = known.find((limit) => limit.name === name)
    if (found === undefined && flags.create !== true) throw noSuchLimit(known, name, 'add --create to make it')
    const limit = await holdfast.setLimit(name, mergeLimit(settingsOf(found), flags), byOption(flags))
    if (flags.json === true) writeJson(cli, { limit })
    else cli.stderr.line(`limit ${name}: ${settingsText(limit)}`)
  })
}

function settingsOf(limit: LimitView | undefined): LimitSettings | undefined {
  if (limit === undefined) return undefined
  const { concurrency, rate, adaptive, breaker } = limit
  return { concurrency, rate, adaptive, breaker: breaker?.settings ?? null }
}

function settingsText(limit: LimitView): string {
  const { rate, breaker, adaptive, concurrency } = limit
  const most = adaptive === null ? concurrency : `${adaptive.min}-${adaptive.max}`
  const parts = [
    most === null ? null : `concurrency ${most}`,
    rate === null ? null : `rate ${rateSetting(rate)}`,
    breaker?.settings == null ? null : `breaker ${breakerSetting(breaker.settings)}`,
  ].filter((part) => part !== null)
  return parts.length === 0 ? 'it bounds nothing' : parts.join('; ')
}

interface RemoveFlags extends StoreFlags, ActorFlags, ConfirmFlags {}

function addRemove(parent: Command, cli: Cli): void {
  const command = parent
    .command('remove')
    .summary('remove a limit')
    .description(
      'Removes a limit. Refused while a job that is unfinished or dead names it, or a schedule. Jobs that name it are refused ' +
        'from then on.',
    )
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: RemoveFlags) => remove(cli, name, flags))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { removed } as JSON' })
  addExamples(command, [
    ['holdfast limits remove stripe', 'asks first'],
    ['holdfast limits set stripe --concurrency none --rate none --breaker none', 'lift it instead: it bounds nothing'],
  ])
}

async function remove(cli: Cli, name: string, flags: RemoveFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await findLimit(holdfast, name)
    const question = `Remove limit ${name}? Jobs that name it will be refused.`
    if (!(await confirm(cli, question, flags))) return
    await holdfast.removeLimit(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { removed: name })
    else cli.stderr.line(`limit ${name} is removed`)
  })
}

interface ForceFlags extends StoreFlags, ActorFlags, ConfirmFlags {}

function addOpen(parent: Command, cli: Cli): void {
  const command = parent
    .command('open')
    .summary('hold a breaker open: nothing that names the limit starts')
    .description(
      'Holds the breaker of a limit open until `close` or `release`, whatever the outcomes: jobs that name it wait, and no ' +
        'attempt is used up. Running jobs continue. The limit needs no breaker of its own for it.',
    )
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: ForceFlags) => force(cli, name, flags, 'open'))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { limit } as JSON' })
  addExamples(command, [
    ['holdfast limits open stripe', 'asks first'],
    ['holdfast limits open stripe --yes --by runbook-12', 'in a script'],
  ])
}

function addClose(parent: Command, cli: Cli): void {
  const command = parent
    .command('close')
    .summary('hold a breaker closed, whatever fails')
    .description('Holds the breaker of a limit closed until `open` or `release`: failures do not open it.')
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: ForceFlags) => force(cli, name, flags, 'closed'))
  addByOption(command)
  addStoreOptions(command, { json: 'print { limit } as JSON' })
  addExamples(command, [['holdfast limits close stripe', 'its jobs start, although many fail']])
}

function addRelease(parent: Command, cli: Cli): void {
  const command = parent
    .command('release')
    .summary('leave a breaker to itself again')
    .description('Leaves the breaker of a limit to itself again: it is closed at first, and its outcomes start anew.')
    .argument('<name>', NAME_HELP)
    .action((name: string, flags: ForceFlags) => force(cli, name, flags, null))
  addByOption(command)
  addStoreOptions(command, { json: 'print { limit } as JSON' })
  addExamples(command, [
    ['holdfast limits release stripe', 'after `open` or `close`'],
    ['holdfast limits release mailer', 'try an open one now, without waiting for its probe'],
  ])
}

async function force(cli: Cli, name: string, flags: ForceFlags, to: 'open' | 'closed' | null): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { running } = await findLimit(holdfast, name)
    if (to === 'open') {
      const question = `Hold limit ${name} open? Nothing that names it starts until it is released (${running} of its jobs run now).`
      if (!(await confirm(cli, question, flags))) return
      await holdfast.openBreaker(name, byOption(flags))
    } else if (to === 'closed') await holdfast.closeBreaker(name, byOption(flags))
    else await holdfast.releaseBreaker(name, byOption(flags))
    if (flags.json === true) writeJson(cli, { limit: await findLimit(holdfast, name) })
    else cli.stderr.line(`the breaker of limit ${name} is ${to === null ? 'left to itself again' : `held ${to}`}`)
  })
}

/** The limit of that name; raises, with exit code 3 and the closest name, when there is none. */
async function findLimit(holdfast: Holdfast, name: string): Promise<LimitView> {
  const limits = await holdfast.limits()
  const limit = limits.find((candidate) => candidate.name === name)
  if (limit !== undefined) return limit
  throw noSuchLimit(limits, name, null)
}

const NAMES_MAX = 10

function noSuchLimit(limits: readonly LimitView[], name: string, advice: string | null): CliError {
  const names = limits.map((limit) => limit.name).filter((known) => !isQueueLimit(known))
  const meant = closest(name, names)
  const known = `there are ${names.slice(0, NAMES_MAX).join(', ')}${names.length > NAMES_MAX ? ', …' : ''}`
  const hint = meant === null ? (names.length === 0 ? 'this store has no limit yet' : known) : `did you mean ${meant}?`
  return new CliError(`there is no limit ${JSON.stringify(name)}`, {
    exitCode: EXIT.notFound,
    hint: advice === null ? hint : `${hint}${meant === null ? ';' : ''} ${advice}`,
  })
}
