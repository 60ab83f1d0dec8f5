// A queue by its name; one that does not exist is told with those that do.

import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'

const NAMES_MAX = 10

/** The queue of that name. Raises, with exit code 3, when nothing was ever enqueued to it or set for it. */
export function findQueue<Queue extends { readonly name: string }>(queues: readonly Queue[], name: string): Queue {
  const queue = queues.find((candidate) => candidate.name === name)
  if (queue !== undefined) return queue
  const some = queues.slice(0, NAMES_MAX).map((candidate) => candidate.name)
  const rest = queues.length > NAMES_MAX ? ', …' : ''
  throw new CliError(`there is no queue ${JSON.stringify(name)}`, {
    exitCode: EXIT.notFound,
    hint: some.length === 0 ? 'no queue has ever had a job here' : `there are ${some.join(', ')}${rest}`,
  })
}
