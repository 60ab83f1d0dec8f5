// holdfast dlq: the dead-letter queue, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addDlqGroups } from './groups.js'
import { addDlqList } from './list.js'
import { addDlqReplay } from './replay.js'

export function addDlq(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'dlq',
    summary: 'look at dead jobs and revive them',
    description: 'The dead-letter queue: jobs that used up their attempts, were dropped, or took their worker down.',
    examples: [
      ['holdfast dlq groups', 'what killed them, the most frequent first'],
      ['holdfast dlq replay --group 5f0c2a11 --per-second 20', 'revive those that died of one thing, gently'],
    ],
    commands: [addDlqList, addDlqGroups, addDlqReplay],
  })
}
