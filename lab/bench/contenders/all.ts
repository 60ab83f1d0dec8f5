// Everybody in the table, by the name given on the command line.

import type { ContenderModule } from '../contender.js'
import { bareSql } from './bare-sql.js'
import { holdfast } from './holdfast.js'
import { bullmqRedis, graphileWorker, pgBoss } from './peers.js'

export const CONTENDERS: Readonly<Record<string, ContenderModule>> = {
  holdfast,
  'bare-sql': bareSql,
  'pg-boss': pgBoss,
  'graphile-worker': graphileWorker,
  'bullmq-redis': bullmqRedis,
}
