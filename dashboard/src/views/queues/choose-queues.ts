// Which queues are shown where not all of them are.

import type { QueueOverview } from '../../api/types.js'

/** The queues with most jobs, in the order of their names. Numbers change every second; rows that moved with them would be hard
 *  to read and to click. */
export function chooseQueues(queues: readonly QueueOverview[], max: number): readonly QueueOverview[] {
  const byLoad = [...queues].sort((a, b) => loadOf(b) - loadOf(a) || compareNames(a, b)).slice(0, max)
  return byLoad.sort(compareNames)
}

function loadOf({ ready, running, retrying, dead, rates }: QueueOverview): number {
  return ready + running + retrying + dead + rates.enqueued
}

function compareNames(a: QueueOverview, b: QueueOverview): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}

/** Those whose name holds the text, at most `max`. */
export function findQueues(queues: readonly QueueOverview[], text: string, max: number): readonly QueueOverview[] {
  const wanted = text.trim().toLowerCase()
  return queues.filter(({ name }) => name.toLowerCase().includes(wanted)).slice(0, max)
}
