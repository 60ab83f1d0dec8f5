// Where the handlers of a run leave their effects.

import type { JobContext } from '../../src/core/definition.js'
import { postgresEffects } from './postgres/effects.js'
import { redisEffects } from './redis/effects.js'
import type { WorkerSetup } from './work.js'

export interface Effects {
  /** Applies the effect on its own. */
  outside(ctx: JobContext): Promise<void>
  /** Applies the effect in the transaction that settles the job. Raises where the store has no such transaction. */
  inside(ctx: JobContext): Promise<void>
  /** Completes the job in a transaction that stays open this long and is then rolled back. */
  rollBack(ctx: JobContext, openMs: number): Promise<void>
}

export function openEffects(setup: WorkerSetup): Effects {
  return setup.effectsUrl === null ? postgresEffects(setup.url) : redisEffects(setup.effectsUrl)
}
