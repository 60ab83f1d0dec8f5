// Events as JSON lines, for programs that follow a worker.

import type { HoldfastEvent } from '../core/events.js'
import { type Cli, writeJsonLine } from './command.js'

/** Writes one event, with its time, as one line. */
export function writeEvent(cli: Cli, event: HoldfastEvent): void {
  const { name, ...facts } = event
  const error = 'error' in facts && facts.error instanceof Error ? { error: facts.error.message } : {}
  writeJsonLine(cli, { at: new Date(), event: name, ...facts, ...error })
}
