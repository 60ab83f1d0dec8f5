// holdfast config show: each setting with the value that holds and where it comes from.

import type { Command } from 'commander'
import { redactUrl } from '../../../core/url.js'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions } from '../../connection.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../../table.js'

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
  /** Of a setting that this command takes as an option. */
  readonly flag?: 'url' | 'schema' | 'color'
  /** Of a setting whose value is not shown. */
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

export function addConfigShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show which settings hold')
    .description('Shows each setting, the value that holds here, and where it comes from. Passwords are left out.')
    .action((flags: ListFlags, self: Command) => show(cli, flags, self))
  addStoreOptions(command, { json: 'print { settings } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [
    ['holdfast config show', 'here and now'],
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
