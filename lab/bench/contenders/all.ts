// All contenders, by their names on the command line.

import type { ContenderModule } from '../contender.js'
import { redisList, redisStream } from './bare-redis.js'
import { bareSql } from './bare-sql.js'
import { bullmqPostgres, bullmqRedis } from './bullmq.js'
import { graphileWorker } from './graphile-worker.js'
import { holdfast, holdfastForgetful, holdfastMemory, holdfastRedis } from './holdfast.js'
import { pgBoss } from './pg-boss.js'

export const CONTENDERS: Readonly<Record<string, ContenderModule>> = {
  holdfast,
  'bare-sql': bareSql,
  'pg-boss': pgBoss,
  'graphile-worker': graphileWorker,
  'bullmq-postgres': bullmqPostgres,
  'bullmq-redis': bullmqRedis,
  'holdfast-redis': holdfastRedis,
  'redis-stream': redisStream,
  'redis-list': redisList,
}

/** Holdfast with options that have benchmarks of their own. */
export const VARIANTS: Readonly<Record<string, ContenderModule>> = {
  'with failoverMemory': holdfastMemory,
  'without failoverMemory': holdfastForgetful,
}

const PEERS = new Set(['pg-boss', 'graphile-worker', 'bullmq-postgres', 'bullmq-redis'])

/** Whether a contender is a peer that must be installed first. */
export function isPeer(name: string): boolean {
  return PEERS.has(name)
}
