// Which store a command talks to, and talking to it: the options every command shares, and what to add to errors.

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { type ConnectOptions, connect } from '../connect.js'
import { isHoldfastError } from '../core/errors.js'
import { redactUrl } from '../core/url.js'
import type { Holdfast } from '../holdfast.js'
import { CliError } from './errors.js'
import { EXIT, exitCodeOf } from './exit-codes.js'
import { COLOR_CHOICES, type ColorChoice } from './terminal.js'

/** What every command takes. */
export interface StoreFlags {
  readonly url?: string
  readonly schema?: string
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

/** Adds the options every command takes. */
export function addStoreOptions(command: Command, help: StoreOptionsHelp): Command {
  for (const option of storeOptions(help)) command.addOption(option)
  return command
}

/** The options every command takes. */
export function storeOptions({ json, url = URL_HELP }: StoreOptionsHelp): readonly Option[] {
  return [
    new Option('--url <url>', url),
    new Option('--schema <name>', 'the PostgreSQL schema (default: holdfast)').env('HOLDFAST_SCHEMA'),
    new Option('--json', json),
    new Option('--verbose', 'show where an error came from'),
    colorOption(),
  ]
}

/** An option that the environment can give as well: --claim-batch is HOLDFAST_CLAIM_BATCH there. */
export function environmentOption(flags: string, description: string, read?: (text: string) => unknown): Option {
  const made = new Option(flags, description)
  if (read !== undefined) made.argParser(read)
  return made.env(`HOLDFAST_${made.name().replaceAll('-', '_').toUpperCase()}`)
}

/** Main.ts looks at it before any command runs. */
function colorOption(): Option {
  return new Option('--color <when>', 'colour (default: auto, in a terminal unless NO_COLOR is set)').choices(
    COLOR_CHOICES,
  )
}

/** A store that was named or fallen back to. */
export interface ChosenStore {
  readonly url: string
  /** As it may be shown: without its password. */
  readonly shown: string
  /** Of an embedded store, its folder; otherwise null. */
  readonly folder: string | null
}

/** The store a command means. The order is that of `connect`. */
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

/** A store by its URL; `source` says where that came from. */
export function describeStore(url: string, source: string): ChosenStore {
  const folder = url.startsWith('embedded:') ? resolve(url.slice('embedded:'.length)) : null
  return { url, shown: `${redactUrl(url)} (from ${source})`, folder }
}

/** Connects; an error says which store it was. */
export async function openStore(
  store: ChosenStore,
  flags: StoreFlags,
  options: ConnectOptions = {},
): Promise<Holdfast> {
  const schema = flags.schema === undefined ? {} : { schema: flags.schema }
  return atStore(store, () => connect(store.url, { ...schema, ...options }))
}

/**
 * Connects for a short call, runs it and closes. Upkeep is left to the processes that stay, and so is the schema: a mistyped
 * one must not become a new queue that nobody works on. With `mustExist` an embedded store that is not there is not made
 * either: looking must not leave a server's files in whatever folder one stands in.
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

/** Raises unless the store can be there: an embedded one needs its folder. */
export function checkExists({ folder }: ChosenStore): void {
  if (folder === null || existsSync(folder)) return
  throw new CliError(`there is no embedded store in ${folder}`, {
    exitCode: EXIT.notFound,
    hint: 'start one with `holdfast dev`, go to the folder that has it, or name a store with --url',
  })
}

/** Runs calls to a store; what it says about itself is passed on together with which one it was. */
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
