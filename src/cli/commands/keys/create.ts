// holdfast keys create: makes an API key and prints its secret, this once.

import { type Command, InvalidArgumentError } from 'commander'
import type { Duration } from '../../../core/duration.js'
import { KEY_SCOPES, type KeyScope } from '../../../core/operating.js'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { duration, gather } from '../../arguments.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'

interface CreateFlags extends StoreFlags, ActorFlags {
  readonly scope: readonly KeyScope[]
  readonly queue?: readonly string[]
  readonly expiresIn?: Duration
  readonly expiresAt?: string
}

export function addKeysCreate(parent: Command, cli: Cli): void {
  const command = parent
    .command('create')
    .summary('make an API key')
    .description('Makes an API key and prints its secret. It is shown this once: the store keeps only its hash.')
    .argument('<name>', 'what people know it by')
    .requiredOption('--scope <scope>', `what it allows: ${KEY_SCOPES.join(', ')}; may be repeated`, gatherScopes)
    .option('--queue <name>', 'a queue it is for (default: all); may be repeated', gather)
    .option('--expires-in <duration>', 'how long it lasts (default: until it is revoked)', duration)
    .option('--expires-at <time>', 'until when it lasts: 2030-01-31T09:00:00Z')
    .action((name: string, flags: CreateFlags) => create(cli, name, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { key, secret } as JSON' })
  addExamples(command, [
    ['holdfast keys create shop --scope enqueue --queue orders', 'enqueue into one queue'],
    ['holdfast keys create grafana --scope read --expires-in 90d', 'look, for three months'],
  ])
}

function gatherScopes(text: string, earlier: readonly string[] = []): readonly string[] {
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
