// holdfast config: what the commands go by, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addConfigShow } from './show.js'

export function addConfig(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'config',
    summary: 'show which settings hold, and where they come from',
    description: 'Settings: options win over the environment, and that over the defaults.',
    examples: [['holdfast config show', 'which store do the commands talk to here?']],
    commands: [addConfigShow],
  })
}
