// A queue by its name. One that does not exist is refused with the name that comes closest, or with those there are.

import type { Command } from 'commander'
import { closest } from '../core/closest.js'
import type { Holdfast } from '../holdfast.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'

const NAMES_MAX = 10

/** The queue of that name. Raises, with exit code 3, when nothing was ever enqueued to it or set for it. */
export function findQueue<Queue extends { readonly name: string }>(queues: readonly Queue[], name: string): Queue {
  const queue = queues.find((candidate) => candidate.name === name)
  if (queue !== undefined) return queue
  throw new CliError(`there is no queue ${JSON.stringify(name)}`, {
    exitCode: EXIT.notFound,
    hint: hintFor(
      name,
      queues.map((candidate) => candidate.name),
    ),
  })
}

function hintFor(name: string, names: readonly string[]): string {
  if (names.length === 0) return 'no queue has ever had a job here'
  const meant = closest(name, names)
  if (meant !== null) return `did you mean ${meant}? \`holdfast queues list\` shows those there are`
  return `there are ${names.slice(0, NAMES_MAX).join(', ')}${names.length > NAMES_MAX ? ', …' : ''}`
}

export interface CreateFlags {
  readonly create?: boolean
}

/** Adds the option that lets a command make the queues it names. */
export function addCreateOption(command: Command): void {
  command.option('--create', 'also for a queue that never had a job: make it')
}

/** Raises for the first of these queues that does not exist, before any is changed. With --create none has to. */
export async function demandQueues(
  holdfast: Holdfast,
  names: readonly string[],
  { create }: CreateFlags = {},
): Promise<void> {
  if (create === true) return
  const queues = await holdfast.queues()
  for (const name of names) findQueue(queues, name)
}
