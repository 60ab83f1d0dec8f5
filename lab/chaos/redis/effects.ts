// Effects on a server of their own, which no fault touches: what handlers call is not the store.

import type { RedisConnection } from '../../../src/stores/redis/port.js'
import { openServer } from '../../../src/stores/redis/route.js'
import type { Effects } from '../effects.js'

/** The stream of effects. */
export const EFFECTS = 'effects'

const CONNECT_MS = 3_000

export function redisEffects(url: string): Effects {
  let opened: Promise<RedisConnection> | null = null
  const connection = async () => {
    if (opened === null || !(await opened).isOpen) opened = openServer({ url, connectMs: CONNECT_MS })
    return opened
  }
  const never = async () => {
    throw new Error('a handler on Redis has no transaction that settles its job')
  }
  return {
    async outside({ id, fence, attempt }) {
      const server = await connection()
      await server.send(['XADD', EFFECTS, '*', 'job', id, 'fence', String(fence), 'attempt', String(attempt)])
    },
    inside: never,
    rollBack: never,
  }
}
