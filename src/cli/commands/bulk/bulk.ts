// holdfast bulk: actions on many jobs that were asked for, one file for each of its commands.

import type { Command } from 'commander'
import { addGroup, type Cli } from '../../command.js'
import { addBulkCancel } from './cancel.js'
import { addBulkList } from './list.js'
import { addBulkShow } from './show.js'

export function addBulk(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'bulk',
    summary: 'look at bulk actions and end them',
    description:
      'Bulk actions: what was asked for with `jobs cancel`, `jobs requeue`, `jobs discard` or `dlq replay` and a filter, ' +
      'done in batches by every process that does upkeep.',
    examples: [
      ['holdfast bulk list', 'how far they have come'],
      ['holdfast bulk show 3e8a74 --wait', 'follow one to its end'],
    ],
    commands: [addBulkList, addBulkShow, addBulkCancel],
  })
}
