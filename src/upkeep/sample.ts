// Sample: how much is where, written down once in ten seconds by whoever is first.

import { BUCKET_MS } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

/** Takes a sample unless there is one, and returns how long to wait. */
export async function sampleOnce({ store, ports }: { store: UpkeepStore; ports: Ports }): Promise<number> {
  await store.sample()
  return jittered(BUCKET_MS, ports)
}
