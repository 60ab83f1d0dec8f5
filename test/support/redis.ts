// A Redis server of a test file, and stores on it that keep nothing yet.

import { type RedisFlags, RedisServer } from '../../lab/servers/redis.js'
import type { Clock } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'

/** Starts a server. Where Redis is not installed it raises, and names the command that installs it. */
export async function openRedis(flags: RedisFlags = {}): Promise<RedisServer> {
  const server = await RedisServer.open({ appendonly: 'no', 'repl-diskless-sync-delay': '0', ...flags })
  if (server !== null) return server
  throw new Error('redis-server is not installed: run `node scripts/redis.js --install` as root, or install Redis 7.0')
}

/** Opens a store on a server that was emptied. */
export async function openCleanStore(server: RedisServer, clock: Pick<Clock, 'now'>): Promise<Store> {
  server.empty()
  return redisStore(server.url, { clock })
}

/** Opens the store of a server as another process would. */
export function openPeerStore(server: RedisServer, clock: Pick<Clock, 'now'>): Promise<Store> {
  return redisStore(server.url, { clock })
}
