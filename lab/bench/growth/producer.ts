// Starts and stops a process that enqueues.

import { Child } from '../children.js'
import type { ProducerAssignment } from './producer-child.js'

const PRODUCER = new URL('./producer-child.js', import.meta.url)

/** Starts a producer, lets `work` use it, stops it. */
export async function withProducer<T>(
  postgresUrl: string,
  deadlineMs: number,
  work: (child: Child) => Promise<T>,
): Promise<T> {
  const assignment: ProducerAssignment = { postgresUrl }
  const child = new Child(PRODUCER, assignment, { name: 'the producer', deadlineMs })
  try {
    await child.hear('ready')
    const result = await work(child)
    child.send({ kind: 'stop' })
    await child.hear('stopped')
    await child.ended()
    return result
  } finally {
    await child.kill()
  }
}
