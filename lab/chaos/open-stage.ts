// The stage of a run, for the store that its settings name.

import { PostgresStage } from './postgres/stage.js'
import { RedisStage } from './redis/stage.js'
import type { ChaosSettings } from './settings.js'
import type { Stage } from './stage.js'

export function openStage(settings: ChaosSettings): Promise<Stage> {
  return settings.store === 'postgres' ? PostgresStage.open(settings) : RedisStage.open(settings)
}
