// holdfast keys: API keys for the HTTP server, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addKeysCreate } from './create.js'
import { addKeysList } from './list.js'
import { addKeysRevoke } from './revoke.js'

export function addKeys(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'keys',
    summary: 'make, list and revoke API keys',
    description: 'API keys: what lets programs use the HTTP API.',
    examples: [
      ['holdfast keys create shop --scope enqueue --queue orders', 'a program that enqueues, into one queue'],
      ['holdfast keys list', 'who has one'],
    ],
    commands: [addKeysCreate, addKeysList, addKeysRevoke],
  })
}
