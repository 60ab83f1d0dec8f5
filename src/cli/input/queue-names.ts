// Names of queues as they are typed: one that does not exist is refused, with the closest name.

import { closest } from '../../core/closest.js'
import type { Holdfast } from '../../holdfast.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

/** Raises for the first of these queues that does not exist, before any is changed. */
export async function requireQueues(holdfast: Holdfast, names: readonly string[]): Promise<void> {
  const queues = await holdfast.queues()
  for (const name of names) findQueue(queues, name)
}

/** The queue of that name; raises, with exit code 3 and the closest name, when there is none. */
export function findQueue<Queue extends { readonly name: string }>(queues: readonly Queue[], name: string): Queue {
  const queue = queues.find((candidate) => candidate.name === name)
  if (queue !== undefined) return queue
  const names = queues.map((candidate) => candidate.name)
  throw new CliError(`there is no queue ${JSON.stringify(name)}`, {
    exitCode: EXIT.notFound,
    hint: hintFor(name, names),
  })
}

const NAMES_MAX = 10

function hintFor(name: string, names: readonly string[]): string {
  if (names.length === 0) return 'this store has no queue yet'
  const meant = closest(name, names)
  if (meant !== null) return `did you mean ${meant}? \`holdfast queues list\` shows all of them`
  return `there are ${names.slice(0, NAMES_MAX).join(', ')}${names.length > NAMES_MAX ? ', …' : ''}`
}
