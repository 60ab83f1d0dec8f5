// holdfast config: which settings the commands use here, and where each comes from.

import type { Command, Option } from 'commander'
import { redactUrl } from '../../core/url.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { addStoreOptions } from '../input/connection.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../output/table.js'

export function addConfig(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'config',
    summary: 'show the settings and where each comes from',
    description: 'Settings: an option wins over the environment, and the environment over the default.',
    examples: [['holdfast config show', 'which store do the commands use here?']],
    commands: [addShow],
  })
}

interface Setting {
  readonly name: string
  readonly value: string | null
  readonly source: string
}

const COLUMNS: readonly Column<Setting>[] = [
  { name: 'setting', text: ({ name }) => name },
  { name: 'value', text: ({ value }) => value ?? '-', isLong: true },
  { name: 'source', text: ({ source }) => source },
]

/** A setting that options and environment variables can give. */
interface Known {
  readonly name: string
  readonly variables: readonly string[]
  readonly fallback: string | null
  /** The option of this command for the setting, if it has one. */
  readonly flag?: 'url' | 'schema' | 'outbox' | 'color'
  /** True when its value must not be shown. */
  readonly isSecret?: boolean
}

/** Settings that are not an option with one variable. */
const SHARED: readonly Known[] = [
  { name: 'url', variables: ['HOLDFAST_URL', 'DATABASE_URL'], fallback: 'embedded:.holdfast', flag: 'url' },
  { name: 'schema', variables: ['HOLDFAST_SCHEMA'], fallback: 'holdfast', flag: 'schema' },
  { name: 'outbox', variables: ['HOLDFAST_OUTBOX'], fallback: null, flag: 'outbox' },
  { name: 'color', variables: ['NO_COLOR', 'FORCE_COLOR'], fallback: 'auto', flag: 'color' },
  { name: 'server token', variables: ['HOLDFAST_TOKEN'], fallback: null, isSecret: true },
  { name: 'server proxy-secret', variables: ['HOLDFAST_PROXY_SECRET'], fallback: null, isSecret: true },
]

/** Every setting: those above, and each option of a command that an environment variable can set, once. */
function settingsOf(program: Command): readonly Known[] {
  const known = new Map(SHARED.map((setting) => [setting.variables[0]!, setting]))
  // dev has no variable of its own: it shares those of server.
  const commands = program.commands.filter((command) => command.name() !== 'dev')
  for (const { command, option } of commands.flatMap(optionsBelow)) {
    const { envVar } = option
    if (envVar === undefined || known.has(envVar)) continue
    const isForAll = ['by', 'log-format', 'log-level'].includes(option.name())
    const name = isForAll ? option.name() : `${command.name()} ${option.name()}`
    known.set(envVar, { name, variables: [envVar], fallback: defaultOf(option) })
  }
  return [...known.values()]
}

function optionsBelow(command: Command): readonly { readonly command: Command; readonly option: Option }[] {
  return [...command.options.map((option) => ({ command, option })), ...command.commands.flatMap(optionsBelow)]
}

/** The default of an option: most have it in their description, because the library knows it and fills it in. */
function defaultOf({ defaultValue, description }: Option): string | null {
  if (defaultValue !== undefined) return String(defaultValue)
  const [, word] = /\(default: ([^\s),]+)[),]/.exec(description) ?? []
  return word === undefined || word === 'none' ? null : word
}

function addShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show the settings')
    .description('Shows each setting with its value here and where that comes from. Passwords are left out.')
    .action((flags: ListFlags, self: Command) => show(cli, flags, self))
  addStoreOptions(command, { json: 'print { settings } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [
    ['holdfast config show', 'in this folder and environment'],
    ["holdfast config show --json | jq -r '.settings[0].value'", 'the store'],
  ])
}

function show(cli: Cli, flags: ListFlags, self: Command): void {
  const rows = settingsOf(self.parent!.parent!).map((known) => resolve(known, flags, self))
  printListing(cli, flags, { name: 'settings', rows, columns: COLUMNS, empty: '' })
}

function resolve({ name, variables, fallback, flag, isSecret }: Known, flags: ListFlags, self: Command): Setting {
  const shown = (value: string) => (isSecret ? '***' : name === 'url' || name === 'outbox' ? redactUrl(value) : value)
  const option = flag === undefined ? undefined : flags[flag]
  if (option !== undefined && self.getOptionValueSource(flag!) === 'cli') {
    return { name, value: shown(option), source: `--${flag}` }
  }
  const variable = variables.find((candidate) => process.env[candidate])
  if (variable !== undefined) return { name, value: shown(process.env[variable]!), source: variable }
  return { name, value: fallback, source: 'default' }
}
