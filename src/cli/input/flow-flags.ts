// Flow control as it is typed: rates, concurrencies, breakers. A setting that is not typed stays as it is, and `none` takes one away.

import { type Command, InvalidArgumentError, Option } from 'commander'
import type { AdaptiveSettings } from '../../core/flow/adaptive.js'
import type {
  BreakerOptions,
  GroupOptions,
  GroupOverrideOptions,
  NamedLimitOptions,
  QueueFlowOptions,
  RateOption,
} from '../../core/flow/resolve.js'
import {
  type GroupOverride,
  type LimitSettings,
  NO_LIMIT,
  NO_QUEUE_FLOW,
  type QueueFlow,
  type Rate,
} from '../../core/flow/settings.js'
import { writeBreaker, writeOverride, writeQueueFlow } from '../../core/flow/written.js'
import { given } from '../../core/given.js'
import { CliError } from '../errors.js'
import { duration, wholeNumber } from './arguments.js'

const NONE = 'none'
type OrNone<Value> = Value | typeof NONE

/** Reads `none`, or what `read` reads. */
function orNone<Value>(read: (text: string) => Value): (text: string) => OrNone<Value> {
  return (text) => (text === NONE ? NONE : read(text))
}

type RateParts = Exclude<RateOption, string>
const UNITS: Readonly<Record<string, string>> = { s: '1s', m: '1m', h: '1h', d: '1d' }

/** A rate such as 100/s, 1000/m or 20/10s. */
function rate(text: string): RateParts {
  const [, limit, per = ''] = /^(\d{1,10})\/(.+)$/.exec(text) ?? []
  try {
    if (limit !== undefined) return { limit: Number(limit), per: duration(UNITS[per] ?? per) }
  } catch {
    // The message below says more.
  }
  throw new InvalidArgumentError('It must be a rate such as 100/s, 1000/m, 5/h, 10/d or 20/10s, or none.')
}

/** A number of jobs, or two numbers between which it moves. */
function concurrency(text: string): number | AdaptiveSettings {
  const [, min, max] = /^(\d{1,9})-(\d{1,9})$/.exec(text) ?? []
  if (min !== undefined) return { min: Number(min), max: Number(max) }
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a number such as 20, two such as 2-50 to adapt between, or none.')
}

function count(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number, or none.')
}

function share(text: string): number {
  const [, number, percent] = /^(\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})(%)?$/.exec(text) ?? []
  if (number !== undefined) return Number(number) / (percent === undefined ? 1 : 100)
  throw new InvalidArgumentError('It must be a part such as 0.5 or 50%.')
}

interface RateFlags {
  readonly rate?: OrNone<RateParts>
  readonly burst?: number
  readonly counts?: Rate['counts']
}

const BURST_HELP = 'how many may start immediately after a rest (default: the number of the rate)'

function addRateOptions(command: Command): Command {
  return command
    .option('--rate <rate>', 'how many start in a time: 100/s, 1000/m, 20/10s; or none', orNone(rate))
    .option('--burst <number>', BURST_HELP, wholeNumber)
    .addOption(
      new Option('--counts <what>', 'what a start takes of the rate (default: starts)').choices(['starts', 'cost']),
    )
}

/** The rate that was typed, completed with what the one before says. */
function mergeRate(known: Rate | null, flags: RateFlags, names: { readonly rate: string }): RateOption | undefined {
  const { rate: typed, burst, counts } = flags
  if (typed === NONE) return undefined
  if (typed === undefined && known === null) {
    if (burst === undefined && counts === undefined) return undefined
    throw new CliError(
      `there is no rate for ${burst === undefined ? '--counts' : '--burst'}: give one with ${names.rate}`,
    )
  }
  // A burst that was left to the rate follows it.
  const own = known === null || known.burst === known.limit ? {} : { burst: known.burst }
  const old = known === null ? {} : { limit: known.limit, per: known.perMs, counts: known.counts, ...own }
  return { ...old, ...typed, ...given({ burst, counts }) } as RateOption
}

/** What was typed for a setting; what it was before when nothing was. */
function merge<Value>(typed: OrNone<Value> | undefined, known: Value | undefined): Value | undefined {
  return typed === undefined ? known : typed === NONE ? undefined : typed
}

export interface LimitFlags extends RateFlags {
  readonly concurrency?: OrNone<number | AdaptiveSettings>
  readonly breaker?: 'on' | typeof NONE
  readonly breakerFailures?: number
  readonly breakerOf?: number
  readonly breakerWithin?: BreakerOptions['within']
  readonly breakerCooldown?: BreakerOptions['cooldown']
  readonly breakerCooldownMax?: OrNone<NonNullable<BreakerOptions['cooldownMax']>>
  readonly breakerProbes?: number
}

/** Adds the settings of a limit. */
export function addLimitOptions(command: Command): Command {
  command.option(
    '--concurrency <number>',
    'how many of its jobs run concurrently; 2-50 adapts between the two; or none',
    orNone(concurrency),
  )
  return addRateOptions(command)
    .addOption(
      new Option('--breaker <how>', 'stop its jobs while too many of them fail; on sets the defaults').choices([
        'on',
        NONE,
      ]),
    )
    .option('--breaker-failures <part>', 'it opens when this part failed (default: 0.5)', share)
    .option('--breaker-of <number>', 'of at least this many outcomes (default: 20)', wholeNumber)
    .option('--breaker-within <duration>', 'how long an outcome counts (default: 30s)', duration)
    .option('--breaker-cooldown <duration>', 'how long it stays open the first time (default: 15s)', duration)
    .option(
      '--breaker-cooldown-max <duration>',
      'how long it stays open at most, each time twice as long; or none (default: 10m)',
      orNone(duration),
    )
    .option('--breaker-probes <number>', 'how many jobs then try it out (default: 3)', wholeNumber)
}

/** The settings of a limit, changed by the flags. */
export function mergeLimit(settings: LimitSettings | undefined, flags: LimitFlags): NamedLimitOptions {
  const known = settings ?? NO_LIMIT
  return given({
    concurrency: merge(flags.concurrency, known.concurrency ?? known.adaptive ?? undefined),
    rate: mergeRate(known.rate, flags, { rate: '--rate' }),
    breaker: mergeBreaker(known, flags),
  }) as NamedLimitOptions
}

function mergeBreaker({ breaker }: LimitSettings, flags: LimitFlags): BreakerOptions | undefined {
  const typed = given({
    failures: flags.breakerFailures,
    of: flags.breakerOf,
    within: flags.breakerWithin,
    cooldown: flags.breakerCooldown,
    cooldownMax: flags.breakerCooldownMax,
    probes: flags.breakerProbes,
  })
  const isTyped = Object.keys(typed).length > 0
  if (flags.breaker === NONE) {
    if (isTyped) throw new CliError('--breaker none takes the breaker away: leave its settings out')
    return undefined
  }
  if (breaker === null && flags.breaker === undefined && !isTyped) return undefined
  const { cooldownMax, ...others } = { ...(breaker === null ? {} : writeBreaker(breaker)), ...typed } as Record<
    string,
    unknown
  >
  return { ...others, ...(cooldownMax === undefined || cooldownMax === NONE ? {} : { cooldownMax }) } as BreakerOptions
}

export interface QueueFlowFlags extends RateFlags {
  readonly concurrency?: OrNone<number>
  readonly maxDepth?: OrNone<number>
  readonly onFull?: QueueFlow['onFull']
  readonly aging?: OrNone<ReturnType<typeof duration>>
  readonly groupConcurrency?: OrNone<number>
  readonly groupRate?: OrNone<RateParts>
  readonly groupBurst?: number
  readonly groupMaxDepth?: OrNone<number>
  readonly ordered?: boolean
  readonly onRetry?: QueueFlow['groups']['onRetry']
  readonly onDead?: QueueFlow['groups']['onDead']
}

const FLOW_HEADING = 'Flow control (none takes a setting away):'

/** Adds flow control of a queue, under a heading of its own. */
export function addQueueFlowOptions(command: Command): Command {
  const add = (option: Option) => void command.addOption(option.helpGroup(FLOW_HEADING))
  const typed = (flags: string, help: string, read: (text: string) => unknown) =>
    add(new Option(flags, help).argParser(read))
  const chosen = (flags: string, help: string, choices: readonly string[]) =>
    add(new Option(flags, help).choices(choices))
  typed('--concurrency <number>', 'how many of its jobs run concurrently, over all processes', orNone(count))
  typed('--rate <rate>', 'how many start in a time: 100/s, 1000/m, 20/10s', orNone(rate))
  typed('--burst <number>', BURST_HELP, wholeNumber)
  chosen('--counts <what>', 'what a start takes of the rate (default: starts)', ['starts', 'cost'])
  typed('--max-depth <number>', 'how many ready jobs it may have; an enqueue beyond is refused', orNone(count))
  chosen('--on-full <how>', 'or waits for room (default: reject)', ['reject', 'wait'])
  typed('--aging <duration>', 'a ready job gains one priority each time it has waited this long', orNone(duration))
  typed('--group-concurrency <number>', 'how many jobs of each group run concurrently', orNone(count))
  typed('--group-rate <rate>', 'how many of each group start in a time', orNone(rate))
  typed('--group-burst <number>', BURST_HELP, wholeNumber)
  typed('--group-max-depth <number>', 'how many ready jobs each group may have', orNone(count))
  add(new Option('--ordered', 'one job of a group at a time, in the order of their enqueues'))
  add(new Option('--no-ordered', 'in any order again'))
  chosen('--on-retry <how>', 'of ordered groups: while a job retries the others wait, or pass (default: wait)', [
    'wait',
    'pass',
  ])
  chosen('--on-dead <how>', 'of ordered groups: when a job dies they continue, or stop (default: continue)', [
    'continue',
    'stop',
  ])
  // Commander's default is true. Here undefined means that neither was given.
  command.setOptionValueWithSource('ordered', undefined, 'default')
  return command
}

/** Flow control of a queue, changed by the flags. */
export function mergeQueueFlow(settings: QueueFlow | undefined, flags: QueueFlowFlags): QueueFlowOptions {
  const flow = settings ?? NO_QUEUE_FLOW
  const known = writeQueueFlow(flow)
  const groups = mergeGroups(flow, known.groups ?? {}, flags)
  return given({
    concurrency: merge(flags.concurrency, known.concurrency),
    rate: mergeRate(flow.rate, flags, { rate: '--rate' }),
    maxDepth: merge(flags.maxDepth, known.maxDepth),
    onFull: flags.onFull ?? known.onFull,
    aging: merge(flags.aging, known.aging),
    groups: Object.keys(groups).length === 0 ? undefined : groups,
  }) as QueueFlowOptions
}

function mergeGroups(flow: QueueFlow, known: GroupOptions, flags: QueueFlowFlags): GroupOptions {
  const ordered = flags.ordered ?? known.ordered ?? false
  const each = given({ rate: flags.groupRate, burst: flags.groupBurst })
  // What holds for ordered groups alone goes with the order.
  const kept = ordered ? known : {}
  return given({
    concurrency: merge(flags.groupConcurrency, known.concurrency),
    rate: mergeRate(flow.groups.rate, each, { rate: '--group-rate' }),
    ordered: ordered ? true : undefined,
    onRetry: flags.onRetry ?? kept.onRetry,
    onDead: flags.onDead ?? kept.onDead,
    maxDepth: merge(flags.groupMaxDepth, known.maxDepth),
  }) as GroupOptions
}

export interface GroupFlags extends RateFlags {
  readonly concurrency?: OrNone<number>
  readonly weight?: number
}

/** Adds the settings of one group. */
export function addGroupSettingOptions(command: Command): Command {
  command.option('--concurrency <number>', 'how many of its jobs run concurrently; or none', orNone(count))
  return addRateOptions(command).option(
    '--weight <number>',
    'how many turns it gets for each turn of another group, 1 to 1,000',
    wholeNumber,
  )
}

/** The settings of a group, changed by the flags. */
export function mergeOverride(override: GroupOverride | null, flags: GroupFlags): GroupOverrideOptions {
  const known = override === null ? {} : writeOverride(override)
  return given({
    concurrency: merge(flags.concurrency, known.concurrency),
    rate: mergeRate(override?.rate ?? null, flags, { rate: '--rate' }),
    weight: flags.weight ?? known.weight,
  }) as GroupOverrideOptions
}
