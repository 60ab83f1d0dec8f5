// Sample: records every ten seconds how many jobs are in each state. The first process to try does it.

import { BUCKET_MS } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import type { FlowWatch } from './flow-watch.js'
import { jittered } from './loop.js'

/** Takes a sample unless there is one, and returns how long to wait. */
export async function sampleOnce(
  { store, ports }: { readonly store: UpkeepStore; readonly ports: Ports },
  flow: Pick<FlowWatch, 'look'>,
): Promise<number> {
  if (await store.sample()) await flow.look()
  return jittered(BUCKET_MS, ports)
}
