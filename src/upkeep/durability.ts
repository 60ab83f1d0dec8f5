// Durability: warns when the server's settings could lose accepted jobs in a crash. Nothing fails until such a crash.

import { describeReduced, describeReducedRedis } from '../core/durability.js'
import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

/** How often it is checked, and reported again while it lasts. */
const LOOK_MS = 10 * 60_000

/** Looks once, and returns how long to wait. */
export async function watchDurability(deps: { store: UpkeepStore; ports: Ports; emit: Emit }): Promise<number> {
  const { postgres, redis } = await deps.store.health()
  const text = redis !== undefined ? describeReducedRedis(redis) : postgres === null ? null : describeReduced(postgres)
  if (text !== null) deps.emit({ name: 'durability.reduced', text })
  return jittered(LOOK_MS, deps.ports)
}
