// holdfast queues: looking at queues and steering them, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addQueuesList } from './list.js'
import { addQueuesPause } from './pause.js'
import { addQueuesRemove } from './remove.js'
import { addQueuesResume } from './resume.js'
import { addQueuesSet } from './set.js'
import { addQueuesShow } from './show.js'

export function addQueues(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'queues',
    summary: 'look at queues, pause and set them',
    description: 'Looks at queues and steers them.',
    examples: [
      ['holdfast queues list', 'how deep each is, who works on it'],
      ['holdfast queues pause mail', 'nobody claims from it until it is resumed'],
    ],
    commands: [addQueuesList, addQueuesShow, addQueuesPause, addQueuesResume, addQueuesSet, addQueuesRemove],
  })
}
