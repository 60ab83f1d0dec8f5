// holdfast keys: API keys for the HTTP server.

import { type Command, InvalidArgumentError } from 'commander'
import type { Duration } from '../../core/duration.js'
import { type ApiKey, KEY_SCOPES, type KeyScope } from '../../core/operating.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { collect, duration } from '../input/arguments.js'
import { addYesOption, type ConfirmFlags, confirm } from '../input/confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../output/table.js'
import { whenText } from '../output/times.js'

export function addKeys(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'keys',
    summary: 'make, list and revoke API keys',
    description: 'API keys: programs use the HTTP API with them.',
    examples: [
      ['holdfast keys create shop --scope enqueue --queue orders', 'a program that enqueues to one queue'],
      ['holdfast keys list', 'which keys there are'],
    ],
    commands: [addCreate, addList, addRevoke],
  })
}

interface CreateFlags extends StoreFlags, ActorFlags {
  readonly scope: readonly KeyScope[]
  readonly queue?: readonly string[]
  readonly expiresIn?: Duration
  readonly expiresAt?: string
}

function addCreate(parent: Command, cli: Cli): void {
  const command = parent
    .command('create')
    .summary('make an API key')
    .description(
      'Makes an API key and prints its secret. The secret is shown only now: the store keeps its hash alone.',
    )
    .argument('<name>', 'a name for people')
    .requiredOption('--scope <scope>', `what it allows: ${KEY_SCOPES.join(', ')}; may be repeated`, collectScopes)
    .option('--queue <name>', 'a queue it may use (default: all); may be repeated', collect)
    .option('--expires-in <duration>', 'how long it is valid (default: until it is revoked)', duration)
    .option('--expires-at <time>', 'until when it is valid: 2030-01-31T09:00:00Z')
    .action((name: string, flags: CreateFlags) => create(cli, name, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { key, secret } as JSON' })
  addExamples(command, [
    ['holdfast keys create shop --scope enqueue --queue orders', 'enqueue to one queue'],
    ['holdfast keys create grafana --scope read --expires-in 90d', 'read, for three months'],
  ])
}

function collectScopes(text: string, earlier: readonly string[] = []): readonly string[] {
  const scopes = text.split(',')
  const unknown = scopes.find((scope) => !(KEY_SCOPES as readonly string[]).includes(scope))
  if (unknown !== undefined) throw new InvalidArgumentError(`Allowed choices are ${KEY_SCOPES.join(', ')}.`)
  return [...earlier, ...scopes]
}

async function create(cli: Cli, name: string, flags: CreateFlags): Promise<void> {
  const { scope: scopes, queue: queues = null, expiresIn = null, expiresAt = null } = flags
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const { key, secret } = await holdfast.createKey({ name, scopes, queues, expiresIn, expiresAt }, byOption(flags))
    if (flags.json === true) {
      writeJson(cli, { key, secret })
      return
    }
    cli.stdout.line(secret)
    const until = key.expiresAt === null ? 'until it is revoked' : `until ${key.expiresAt.toISOString()}`
    cli.stderr.line(`key ${key.id} allows ${key.scopes.join(', ')} ${until}; its secret is not shown again`)
  })
}

function stateOf({ revokedAt, expiresAt }: ApiKey): 'revoked' | 'expired' | 'valid' {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? 'expired' : 'valid'
}

const COLUMNS: readonly Column<ApiKey>[] = [
  { name: 'id', text: ({ id }) => id },
  { name: 'name', text: ({ name }) => name, isLong: true },
  { name: 'state', text: stateOf, format: (key) => (stateOf(key) === 'valid' ? 'green' : 'dim') },
  { name: 'scopes', text: ({ scopes }) => scopes.join(',') },
  { name: 'queues', text: ({ queues }) => queues?.join(',') ?? '(all)', isLong: true },
  { name: 'created', text: ({ createdAt }, look) => whenText(createdAt, look) },
  { name: 'expires', text: ({ expiresAt }, look) => whenText(expiresAt, look) },
  { name: 'used', text: ({ lastUsedAt }, look) => whenText(lastUsedAt, look) },
]

function addList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list API keys')
    .description('Lists every API key, newest first, without its secret.')
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { keys } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [['holdfast keys list', 'which keys there are, and when each was last used']])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.keys()
    const empty = 'there is no API key: `holdfast keys create` makes one'
    printListing(cli, flags, { name: 'keys', rows, columns: COLUMNS, empty })
  })
}

interface RevokeFlags extends StoreFlags, ActorFlags, ConfirmFlags {}

function addRevoke(parent: Command, cli: Cli): void {
  const command = parent
    .command('revoke')
    .summary('revoke an API key')
    .description('Revokes an API key, immediately and for good.')
    .argument('<id>', 'as `holdfast keys list` shows it')
    .action((id: string, flags: RevokeFlags) => revoke(cli, id, flags))
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { key } as JSON' })
  addExamples(command, [
    ['holdfast keys revoke 5b1f6c3e8a74', 'asks first'],
    ['holdfast keys revoke 5b1f6c3e8a74 --yes', 'in a script'],
  ])
}

async function revoke(cli: Cli, id: string, flags: RevokeFlags): Promise<void> {
  if (!(await confirm(cli, `Revoke key ${id}, for good?`, flags))) return
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const key = await holdfast.revokeKey(id, byOption(flags))
    if (flags.json === true) writeJson(cli, { key })
    else cli.stderr.line(`key ${key.id} (${key.name}) is revoked`)
  })
}
