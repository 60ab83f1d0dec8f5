// Which store a command uses: the options every command takes, and connecting to that store.

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { type ConnectOptions, connect } from '../../connect.js'
import { isHoldfastError } from '../../core/errors.js'
import { given } from '../../core/given.js'
import { redactUrl } from '../../core/url.js'
import type { Holdfast } from '../../holdfast.js'
import { CliError } from '../errors.js'
import { EXIT, exitCodeOf } from '../exit-codes.js'
import { COLOR_CHOICES, type ColorChoice } from '../output/terminal.js'

/** What every command takes. */
export interface StoreFlags {
  readonly url?: string
  readonly schema?: string
  readonly outbox?: string
  readonly json?: boolean
  readonly verbose?: boolean
  readonly color?: ColorChoice
}

const URL_HELP = 'the store (default: HOLDFAST_URL, DATABASE_URL, then embedded:.holdfast)'

interface StoreOptionsHelp {
  /** What the command's JSON is. */
  readonly json: string
  readonly url?: string
}

/** Adds the options every command takes. The help lists them apart, below the command's own. */
export function addStoreOptions(command: Command, help: StoreOptionsHelp): Command {
  for (const option of storeOptions(help)) command.addOption(option.helpGroup('Options of every command:'))
  return command
}

/** The options every command takes. */
function storeOptions({ json, url = URL_HELP }: StoreOptionsHelp): readonly Option[] {
  return [
    new Option('--url <url>', url),
    new Option('--schema <name>', 'the PostgreSQL schema (default: holdfast)').env('HOLDFAST_SCHEMA'),
    new Option('--outbox <url>', 'of a store on Redis: the PostgreSQL database whose transactions enqueue').env(
      'HOLDFAST_OUTBOX',
    ),
    new Option('--json', json),
    new Option('--verbose', 'show where an error came from'),
    colorOption(),
  ]
}

/** An option that an environment variable can set too: --claim-batch is HOLDFAST_CLAIM_BATCH. */
export function environmentOption(flags: string, description: string, read?: (text: string) => unknown): Option {
  const made = new Option(flags, description)
  if (read !== undefined) made.argParser(read)
  return made.env(`HOLDFAST_${made.name().replaceAll('-', '_').toUpperCase()}`)
}

/** A function that adds such options to a command. */
export function environmentOptions(command: Command): (...option: Parameters<typeof environmentOption>) => void {
  return (...option) => void command.addOption(environmentOption(...option))
}

/** main.ts reads it before any command runs. */
function colorOption(): Option {
  return new Option('--color <when>', 'colour (default: auto, in a terminal unless NO_COLOR is set)').choices(
    COLOR_CHOICES,
  )
}

/**
 * Lets the program or a group take the shared options before the command's name: `holdfast --url X jobs list` means
 * `holdfast jobs list --url X`. `hidden` keeps them out of the help.
 */
export function addEarlyOptions(command: Command, { hidden }: { readonly hidden: boolean }): void {
  for (const option of storeOptions({ json: 'for programs: JSON on stdout' })) {
    // Without .env(): the command itself reads the environment, and there an option that was typed wins.
    const early = new Option(option.flags, `${option.description}; also after the command`).hideHelp(hidden)
    if (option.argChoices !== undefined) early.choices(option.argChoices)
    command.addOption(early)
  }
}

/** Gives a command the options that were typed before its name. An option typed after the name wins. */
export function takeEarlyOptions(command: Command): void {
  for (let above = command.parent; above !== null; above = above.parent) {
    for (const option of above.options) takeOption(command, above, option)
  }
  refuseOutboxElsewhere(command)
}

/** The variable may be set for all stores of an environment. An option that was typed is meant, and would do nothing. */
function refuseOutboxElsewhere(command: Command): void {
  if (command.getOptionValueSource('outbox') !== 'cli') return
  const { url } = command.opts<StoreFlags>()
  const named =
    command.name() === 'dev' ? (url ?? 'embedded:') : chooseStore({ ...(url === undefined ? {} : { url }) }).url
  if (isRedisUrl(named)) return
  const kind = /^[a-z]+/.exec(named)?.[0] ?? 'other'
  command.error(
    `error: --outbox is for a store on Redis, and this one is ${kind}: PostgreSQL takes your transaction itself; leave it out, or give --url redis://…`,
  )
}

function isRedisUrl(url: string): boolean {
  return /^rediss?[+:]/.test(url)
}

function takeOption(command: Command, above: Command, option: Option): void {
  const name = option.attributeName()
  if (above.getOptionValueSource(name) !== 'cli') return
  if (!command.options.some((own) => own.attributeName() === name)) {
    const path = command.parent === above ? command.name() : `${command.parent?.name()} ${command.name()}`
    command.error(`error: ${path} has no option ${option.long}`)
  }
  if (command.getOptionValueSource(name) === 'cli') return
  command.setOptionValueWithSource(name, above.getOptionValue(name), 'cli')
}

/** The store that was named, or the default. */
export interface ChosenStore {
  readonly url: string
  /** For people: without its password. */
  readonly shown: string
  /** The folder of an embedded store; null for other stores. */
  readonly folder: string | null
}

/** The store a command uses. The order is the same as in `connect`. */
export function chooseStore({ url }: StoreFlags): ChosenStore {
  const sources = [
    { value: url, source: '--url' },
    { value: process.env.HOLDFAST_URL, source: 'HOLDFAST_URL' },
    { value: process.env.DATABASE_URL, source: 'DATABASE_URL' },
  ]
  const chosen = sources.find(({ value }) => value !== undefined && value !== '')
  const named = chosen?.value ?? 'embedded:.holdfast'
  return describeStore(named, chosen?.source ?? 'the default')
}

/** A store by its URL; `source` is where the URL came from. */
export function describeStore(url: string, source: string): ChosenStore {
  const folder = url.startsWith('embedded:') ? resolve(url.slice('embedded:'.length)) : null
  return { url, shown: `${redactUrl(url)} (from ${source})`, folder }
}

/** Connects. An error names the store. */
export async function openStore(
  store: ChosenStore,
  flags: StoreFlags,
  options: ConnectOptions = {},
): Promise<Holdfast> {
  // The variable may be set for all stores of an environment.
  const outbox = isRedisUrl(store.url) ? flags.outbox : undefined
  return atStore(store, () => connect(store.url, { ...given({ schema: flags.schema, outbox }), ...options }))
}

/**
 * Connects for a short call, runs it and closes. It does no upkeep and no migration: a mistyped schema must not become a new
 * one that no worker serves. With `mustExist` it does not create an embedded store either: a command that only reads must not
 * leave a server's files in the current folder.
 */
export async function withStore<T>(
  flags: StoreFlags,
  { mustExist }: { readonly mustExist: boolean },
  run: (holdfast: Holdfast) => Promise<T>,
): Promise<T> {
  const store = chooseStore(flags)
  if (mustExist) checkExists(store)
  const isNew = store.folder !== null && !existsSync(store.folder)
  const holdfast = await openStore(store, flags, { upkeep: false, migrate: isNew })
  try {
    return await atStore(store, () => run(holdfast))
  } finally {
    await holdfast.close()
  }
}

/** Raises when an embedded store has no folder yet. */
export function checkExists({ folder }: ChosenStore): void {
  if (folder === null || existsSync(folder)) return
  throw new CliError(`there is no embedded store in ${folder}`, {
    exitCode: EXIT.notFound,
    hint: 'start one with `holdfast dev`, change to the folder that has it, or name a store with --url',
  })
}

/** Runs calls to a store. Errors about the store itself get its name. */
export async function atStore<T>(store: ChosenStore, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (!isHoldfastError(error)) throw error
    const exitCode = exitCodeOf(error.code)
    const isAboutStore =
      exitCode === EXIT.cannotConnect || exitCode === EXIT.checkFailed || error.code === 'invalid_url'
    if (!isAboutStore) throw error
    throw new CliError(error.message, { exitCode, store: store.shown, cause: error })
  }
}
