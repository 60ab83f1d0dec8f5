// A Redis Cluster of a test file, and stores on it that keep nothing yet.

import { RedisCluster, type RedisClusterOptions } from '../../lab/servers/redis-cluster.js'
import type { Clock } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'

/** Starts 3 masters with a replica each. Where Redis is not installed it raises, and names the command that installs it. */
export async function openRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const cluster = await RedisCluster.open(options)
  if (cluster !== null) return cluster
  throw new Error('redis-server is not installed: run `node scripts/redis.js --install` as root, or install Redis 7.0')
}

/** Opens a store on a cluster that was emptied. */
export async function openCleanStore(cluster: RedisCluster, clock: Pick<Clock, 'now'>): Promise<Store> {
  cluster.empty()
  return redisStore(cluster.url, { clock })
}

/** Opens the store of a cluster as another process would. */
export function openPeerStore(cluster: RedisCluster, clock: Pick<Clock, 'now'>): Promise<Store> {
  return redisStore(cluster.url, { clock })
}
