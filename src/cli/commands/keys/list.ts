// holdfast keys list: API keys, without what lets anybody in.

import type { Command } from 'commander'
import type { ApiKey } from '../../../core/operating.js'
import { addExamples, type Cli } from '../../command.js'
import { addStoreOptions, withStore } from '../../connection.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../../table.js'
import { whenText } from '../../times.js'

function stateOf({ revokedAt, expiresAt }: ApiKey): 'revoked' | 'expired' | 'holds' {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? 'expired' : 'holds'
}

const COLUMNS: readonly Column<ApiKey>[] = [
  { name: 'id', text: ({ id }) => id },
  { name: 'name', text: ({ name }) => name, isLong: true },
  { name: 'state', text: stateOf, format: (key) => (stateOf(key) === 'holds' ? 'green' : 'dim') },
  { name: 'scopes', text: ({ scopes }) => scopes.join(',') },
  { name: 'queues', text: ({ queues }) => queues?.join(',') ?? '(all)', isLong: true },
  { name: 'created', text: ({ createdAt }, look) => whenText(createdAt, look) },
  { name: 'expires', text: ({ expiresAt }, look) => whenText(expiresAt, look) },
  { name: 'used', text: ({ lastUsedAt }, look) => whenText(lastUsedAt, look) },
]

export function addKeysList(parent: Command, cli: Cli): void {
  const command = parent
    .command('list')
    .summary('list API keys')
    .description('Lists every API key, newest first, without its secret.')
    .action((flags: ListFlags) => list(cli, flags))
  addStoreOptions(command, { json: 'print { keys } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [['holdfast keys list', 'who has one, and when it was last used']])
}

async function list(cli: Cli, flags: ListFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const rows = await holdfast.keys()
    const empty = 'there is no API key: `holdfast keys create` makes one'
    printListing(cli, flags, { name: 'keys', rows, columns: COLUMNS, empty })
  })
}
