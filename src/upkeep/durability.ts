// Durability: says when the server keeps less than was promised. Nothing fails then, until a crash shows it.

import { describeReduced } from '../core/durability.js'
import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

/** How often it is looked at, and said again while it lasts. */
const LOOK_MS = 10 * 60_000

/** Looks once, and returns how long to wait. */
export async function watchDurability(deps: { store: UpkeepStore; ports: Ports; emit: Emit }): Promise<number> {
  const { postgres } = await deps.store.health()
  const text = postgres === null ? null : describeReduced(postgres)
  if (text !== null) deps.emit({ name: 'durability.reduced', text })
  return jittered(LOOK_MS, deps.ports)
}
