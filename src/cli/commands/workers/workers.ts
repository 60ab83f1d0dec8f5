// holdfast workers: who works, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addWorkersList } from './list.js'

export function addWorkers(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'workers',
    summary: 'look at workers',
    description: 'Looks at the workers of every process.',
    examples: [['holdfast workers list', 'who lives, and what they run']],
    commands: [addWorkersList],
  })
}
