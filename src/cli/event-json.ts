// Events as JSON lines, for programs that follow a worker.

import type { HoldfastEvent } from '../core/events.js'
import { type Cli, writeJsonLine } from './command.js'

/** Writes one event, with its time, as one line. */
export function writeEvent(cli: Cli, event: HoldfastEvent): void {
  const { name, ...facts } = event
  const error = 'error' in facts && facts.error instanceof Error ? { error: facts.error.message } : {}
  writeJsonLine(cli, { at: new Date(), event: name, ...facts, ...error })
}

const ROUTINE: ReadonlySet<HoldfastEvent['name']> = new Set([
  'job.enqueued',
  'enqueue.answered',
  'job.claimed',
  'job.started',
  'job.promoted',
  'lease.extended',
  'schedule.fired',
  'prune.done',
])

/** True for what happens all the time and needs nobody's attention. */
export function isRoutine(event: HoldfastEvent): boolean {
  if (event.name === 'job.ended') return event.outcome === 'succeeded'
  if (event.name === 'job.settled') return event.state === 'succeeded' || event.state === 'scheduled'
  return ROUTINE.has(event.name)
}
