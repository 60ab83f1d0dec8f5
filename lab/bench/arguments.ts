// The benchmark's command line. An unknown name or flag is an error. Otherwise a wrong measurement would be noticed only half an
// hour later.

import { parseArgs } from 'node:util'

/** An invalid command line; the message is for the user. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** What there is to choose from. */
export interface Choices {
  readonly measures: readonly string[]
  readonly contenders: readonly string[]
  readonly growth: readonly string[]
  readonly flow: readonly string[]
}

/** `npm run bench`: contenders side by side. */
export interface CompareArguments {
  readonly program: 'compare'
  readonly measures: readonly string[]
  readonly contenders: readonly string[]
  readonly rounds: number
  /** When Redis writes its log to disk. */
  readonly appendfsync: 'everysec' | 'always'
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- growth`: how Holdfast's cost grows. */
export interface GrowthArguments {
  readonly program: 'growth'
  readonly measures: readonly string[]
  /** How long the snapshot of that measure is held; null leaves it to the scale. */
  readonly minutes: number | null
  /** Where plots are written; null makes a folder for them. */
  readonly out: string | null
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- dashboard`: what the dashboard asks for, over a full store. */
export interface DashboardArguments {
  readonly program: 'dashboard'
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- tenants`: how long one tenant's enqueues take beside another that sends expensive requests. */
export interface TenantsArguments {
  readonly program: 'tenants'
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- host`: what handlers in children cost, and how soon the jobs of a killed child run again. */
export interface HostArguments {
  readonly program: 'host'
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- fleet`: a fleet of this build and one of another checkout, in turns. */
export interface FleetArguments {
  readonly program: 'fleet'
  /** The folder of the other checkout. */
  readonly against: string
  readonly rounds: number
  /** How long each window is measured. */
  readonly seconds: number
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- flow`: what flow control costs. */
export interface FlowArguments {
  readonly program: 'flow'
  readonly loads: readonly string[]
  readonly rounds: number
  /** The folder of a build from before, whose plain jobs are compared with this one's; null measures flow control itself. */
  readonly against: string | null
  /** Whether grouped jobs come and go while a snapshot is held, instead of anything else. */
  readonly isSnapshot: boolean
  readonly minutes: number | null
  readonly isQuick: boolean
  readonly isJson: boolean
}

/** `npm run bench -- failover`: what it costs to remember what was accepted. */
export interface FailoverArguments {
  readonly program: 'failover'
  readonly rounds: number
  readonly isQuick: boolean
  readonly isJson: boolean
}

export const USAGE = `usage: holdfast bench -- [options]            contenders side by side
       holdfast bench -- growth [options]     how the cost grows, Holdfast alone
       holdfast bench -- dashboard [options]  the dashboard's requests over two million jobs
       holdfast bench -- tenants [options]    enqueues over HTTP beside a tenant that asks for much
       holdfast bench -- fleet [options]      a fleet of this build and one of another checkout, in turns
       holdfast bench -- host [options]       handlers in children: their cost, and kill -9 of a child
       holdfast bench -- flow [options]       limits and groups: their cost, and what plain jobs pay for them
       holdfast bench -- failover [options]   remembering what was accepted: its cost, with and without in turns
(in a clone: npm run bench -- …)

  --only "a;b"         measures whose name contains one of these
  --quick              small scale, to see that it works
  --json               one document on stdout
  --contenders "a;b"   (side by side) contenders whose name contains one of these
  --appendfsync always (side by side) Redis writes its log to disk before each answer; default everysec
  --rounds 3           (side by side, fleet, flow, failover) how often each is measured, from 1 to 20
  --against <folder>   (fleet, flow) the other checkout; scripts/other-checkout.js prepares one
  --snapshot           (flow) grouped jobs while a snapshot is held, and nothing else
  --seconds 15         (fleet) how long each window is measured, from 1 to 600
  --minutes 5          (growth, flow) how long the snapshot is held, from 0.1 to 120
  --out <folder>       (growth) where the plots go; default a new folder among the temporary ones`

type Arguments =
  | CompareArguments
  | GrowthArguments
  | DashboardArguments
  | TenantsArguments
  | FleetArguments
  | HostArguments
  | FlowArguments
  | FailoverArguments

/** Reads the arguments after the program's name; raises UsageError. */
export function readArguments(words: readonly string[], choices: Choices): Arguments {
  const [first, ...others] = words
  if (first === 'growth') return readGrowth(others, choices)
  if (first === 'dashboard') return { program: 'dashboard', ...readScale(others) }
  if (first === 'tenants') return { program: 'tenants', ...readScale(others) }
  if (first === 'fleet') return readFleet(others)
  if (first === 'host') return { program: 'host', ...readScale(others) }
  if (first === 'flow') return readFlow(others, choices)
  if (first === 'failover') return readFailover(others)
  if (first !== undefined && !first.startsWith('-')) {
    const named = 'growth, dashboard, tenants, fleet, host, flow and failover'
    throw new UsageError(`there is no benchmark "${first}"; those with a name are ${named}`)
  }
  return readCompare(words, choices)
}

function readCompare(words: readonly string[], choices: Choices): CompareArguments {
  const values = readFlags(words, {
    json: { type: 'boolean' },
    quick: { type: 'boolean' },
    rounds: { type: 'string' },
    only: { type: 'string' },
    contenders: { type: 'string' },
    appendfsync: { type: 'string' },
  })
  return {
    program: 'compare',
    measures: choose('measure', choices.measures, values.only),
    contenders: choose('contender', choices.contenders, values.contenders),
    rounds: readRounds(values.rounds),
    appendfsync: readAppendfsync(values.appendfsync),
    isQuick: values.quick === true,
    isJson: values.json === true,
  }
}

function readAppendfsync(text = 'everysec'): CompareArguments['appendfsync'] {
  if (text === 'everysec' || text === 'always') return text
  throw new UsageError(`--appendfsync must be everysec or always, got ${JSON.stringify(text)}`)
}

function readGrowth(words: readonly string[], choices: Choices): GrowthArguments {
  const values = readFlags(words, {
    json: { type: 'boolean' },
    quick: { type: 'boolean' },
    only: { type: 'string' },
    minutes: { type: 'string' },
    out: { type: 'string' },
  })
  return {
    program: 'growth',
    measures: choose('measure', choices.growth, values.only),
    minutes: readMinutes(values.minutes),
    out: readOut(values.out),
    isQuick: values.quick === true,
    isJson: values.json === true,
  }
}

function readFleet(words: readonly string[]): FleetArguments {
  const values = readFlags(words, {
    json: { type: 'boolean' },
    quick: { type: 'boolean' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    against: { type: 'string' },
  })
  const { against } = values
  if (against === undefined || against.trim() === '') {
    throw new UsageError('--against must name the folder of the other checkout')
  }
  return {
    program: 'fleet',
    against,
    rounds: readRounds(values.rounds),
    seconds: readSeconds(values.seconds),
    isQuick: values.quick === true,
    isJson: values.json === true,
  }
}

function readFlow(words: readonly string[], choices: Choices): FlowArguments {
  const values = readFlags(words, {
    json: { type: 'boolean' },
    quick: { type: 'boolean' },
    snapshot: { type: 'boolean' },
    rounds: { type: 'string' },
    only: { type: 'string' },
    against: { type: 'string' },
    minutes: { type: 'string' },
  })
  const { against = null, snapshot = false } = values
  if (against !== null && against.trim() === '') {
    throw new UsageError('--against must name the folder of the other checkout')
  }
  if (snapshot && against !== null) {
    throw new UsageError('--snapshot and --against are two measurements: ask for one of them')
  }
  if (!snapshot && values.minutes !== undefined) throw new UsageError('--minutes goes with --snapshot')
  return {
    program: 'flow',
    loads: choose('load', choices.flow, values.only),
    rounds: readRounds(values.rounds),
    against,
    isSnapshot: snapshot,
    minutes: readMinutes(values.minutes),
    isQuick: values.quick === true,
    isJson: values.json === true,
  }
}

function readFailover(words: readonly string[]): FailoverArguments {
  const values = readFlags(words, { json: { type: 'boolean' }, quick: { type: 'boolean' }, rounds: { type: 'string' } })
  return {
    program: 'failover',
    rounds: readRounds(values.rounds),
    isQuick: values.quick === true,
    isJson: values.json === true,
  }
}

function readScale(words: readonly string[]): Pick<DashboardArguments, 'isQuick' | 'isJson'> {
  const values = readFlags(words, { json: { type: 'boolean' }, quick: { type: 'boolean' } })
  return { isQuick: values.quick === true, isJson: values.json === true }
}

type Flags = Readonly<Record<string, { readonly type: 'string' } | { readonly type: 'boolean' }>>
type Values<F extends Flags> = { [Name in keyof F]?: F[Name]['type'] extends 'string' ? string : boolean }

function readFlags<const F extends Flags>(words: readonly string[], options: F): Values<F> {
  try {
    return parseArgs({ args: [...words], options, strict: true, allowPositionals: false }).values as Values<F>
  } catch (cause) {
    // The first sentence names the mistake; the rest is advice for programs with positionals.
    const text = cause instanceof Error ? cause.message.split(/[.\n]/)[0] : String(cause)
    throw new UsageError(
      `${text}; this takes ${Object.keys(options)
        .map((name) => `--${name}`)
        .join(', ')}`,
      { cause },
    )
  }
}

/** The names that contain one of the parts in `wanted`, which are separated by semicolons; all of them without it. A whole name chooses
 *  itself alone. */
export function choose(what: string, all: readonly string[], wanted: string | undefined): readonly string[] {
  if (wanted === undefined) return all
  const parts = wanted.split(';').map((part) => part.trim())
  for (const part of parts) {
    if (part !== '' && all.some((name) => name.includes(part))) continue
    throw new UsageError(`no ${what} has ${JSON.stringify(part)} in its name; there are: ${all.join('; ')}`)
  }
  return all.filter((name) => parts.some((part) => (all.includes(part) ? name === part : name.includes(part))))
}

function readRounds(text: string | undefined): number {
  const rounds = Number(text ?? '3')
  if (Number.isInteger(rounds) && rounds >= 1 && rounds <= 20) return rounds
  throw new UsageError(`--rounds must be a whole number from 1 to 20, got ${JSON.stringify(text)}`)
}

function readSeconds(text: string | undefined): number {
  const seconds = Number(text ?? '15')
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= 600) return seconds
  throw new UsageError(`--seconds must be a whole number from 1 to 600, got ${JSON.stringify(text)}`)
}

function readMinutes(text: string | undefined): number | null {
  if (text === undefined) return null
  const minutes = text.trim() === '' ? Number.NaN : Number(text)
  if (minutes >= 0.1 && minutes <= 120) return minutes
  throw new UsageError(`--minutes must be a number from 0.1 to 120, got ${JSON.stringify(text)}`)
}

function readOut(text: string | undefined): string | null {
  if (text === undefined) return null
  if (text.trim() !== '') return text
  throw new UsageError('--out must name a folder, got an empty one')
}
