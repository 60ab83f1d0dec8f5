// holdfast config: which settings the commands use here, and where each comes from.

import type { Command } from 'commander'
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

interface Known {
  readonly name: string
  readonly variables: readonly string[]
  readonly fallback: string | null
  /** The option of this command for the setting, if it has one. */
  readonly flag?: 'url' | 'schema' | 'color'
  /** True when its value must not be shown. */
  readonly isSecret?: boolean
}

const KNOWN: readonly Known[] = [
  { name: 'url', variables: ['HOLDFAST_URL', 'DATABASE_URL'], fallback: 'embedded:.holdfast', flag: 'url' },
  { name: 'schema', variables: ['HOLDFAST_SCHEMA'], fallback: 'holdfast', flag: 'schema' },
  { name: 'color', variables: ['NO_COLOR', 'FORCE_COLOR'], fallback: 'auto', flag: 'color' },
  { name: 'by', variables: ['HOLDFAST_BY'], fallback: null },
  { name: 'worker queues', variables: ['HOLDFAST_QUEUES'], fallback: null },
  { name: 'worker concurrency', variables: ['HOLDFAST_CONCURRENCY'], fallback: '10' },
  { name: 'worker claim-batch', variables: ['HOLDFAST_CLAIM_BATCH'], fallback: '500' },
  { name: 'worker visibility-timeout', variables: ['HOLDFAST_VISIBILITY_TIMEOUT'], fallback: '30s' },
  { name: 'worker drain-timeout', variables: ['HOLDFAST_DRAIN_TIMEOUT'], fallback: '15s' },
  { name: 'worker metrics-port', variables: ['HOLDFAST_METRICS_PORT'], fallback: null },
  { name: 'worker metrics-host', variables: ['HOLDFAST_METRICS_HOST'], fallback: '127.0.0.1' },
  { name: 'server host', variables: ['HOLDFAST_HOST'], fallback: 'localhost' },
  { name: 'server port', variables: ['HOLDFAST_PORT'], fallback: '4680' },
  { name: 'server allow-host', variables: ['HOLDFAST_ALLOW_HOST'], fallback: null },
  { name: 'server base-path', variables: ['HOLDFAST_BASE_PATH'], fallback: null },
  { name: 'server token', variables: ['HOLDFAST_TOKEN'], fallback: null, isSecret: true },
  { name: 'log-format', variables: ['HOLDFAST_LOG_FORMAT'], fallback: null },
  { name: 'log-level', variables: ['HOLDFAST_LOG_LEVEL'], fallback: 'info' },
]

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
  const rows = KNOWN.map((known) => resolve(known, flags, self))
  printListing(cli, flags, { name: 'settings', rows, columns: COLUMNS, empty: '' })
}

function resolve({ name, variables, fallback, flag, isSecret }: Known, flags: ListFlags, self: Command): Setting {
  const shown = (value: string) => (isSecret ? '***' : name === 'url' ? redactUrl(value) : value)
  const option = flag === undefined ? undefined : flags[flag]
  if (option !== undefined && self.getOptionValueSource(flag!) === 'cli') {
    return { name, value: shown(option), source: `--${flag}` }
  }
  const variable = variables.find((candidate) => process.env[candidate])
  if (variable !== undefined) return { name, value: shown(process.env[variable]!), source: variable }
  return { name, value: fallback, source: 'default' }
}
