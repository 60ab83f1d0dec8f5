// Every measure of growth, by the name given on the command line.

import { backlog } from './backlog.js'
import { buffer } from './buffer.js'
import { finished } from './finished.js'
import { idle } from './idle.js'
import type { GrowthMeasure } from './measure.js'
import { memory } from './memory.js'
import { queues } from './queues.js'
import { scheduled } from './scheduled.js'
import { slots } from './slots.js'
import { snapshot } from './snapshot.js'

export const GROWTH_MEASURES: Readonly<Record<string, GrowthMeasure>> = {
  backlog,
  scheduled,
  finished,
  slots,
  queues,
  snapshot,
  memory,
  buffer,
  idle,
}
