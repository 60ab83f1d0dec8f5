// How much memory of the Redis server a job takes, while it waits and when it has finished and is kept.

import { openConnection } from '../../src/stores/redis/node-redis.js'
import { drainAll, fill } from './drains.js'
import type { Measure } from './measures.js'
import { PAYLOAD } from './payloads.js'

const CONNECT_MS = 5_000
/** Until what the server has to write to its log and its clients has left its buffers. */
const REST_MS = 1_500

/** A backlog of plain jobs, enqueued 500 at a time and drained. */
export const memory: Measure['run'] = async ({ contender, servers: { redisPort }, scale: { depths } }) => {
  // As many of every contender: what the server has for itself counts less the more there are.
  const jobs = depths.short
  const server = await openConnection({ url: `redis://127.0.0.1:${redisPort}`, connectMs: CONNECT_MS })
  const used = async () => {
    await new Promise((resolve) => setTimeout(resolve, REST_MS))
    const info = String(await server.send(['INFO', 'memory']))
    return Number(/^used_memory:(\d+)/m.exec(info)?.[1])
  }
  try {
    const before = await used()
    await fill(contender, jobs, () => PAYLOAD)
    const full = await used()
    const measured = await drainAll(contender, jobs, () => undefined)
    const after = await used()
    return {
      ...measured,
      waitingBytes: (full - before) / jobs,
      finishedBytes: (after - before) / jobs,
    }
  } finally {
    server.destroy()
  }
}
