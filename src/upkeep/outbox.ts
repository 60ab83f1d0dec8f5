// Outbox: what was committed in PostgreSQL is sent to the store. A store without an outbox has nothing to send.

import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'

/** Rows of other processes are found by looking. Those of this process, and those that are announced, do not wait for it. */
const WAIT_MS = 1_000
const NEVER_MS = 3_600_000

/** Sends what waits, and returns how long to wait. */
export async function dispatchOutbox({
  store,
  ports,
}: {
  readonly store: UpkeepStore
  readonly ports: Ports
}): Promise<number> {
  if (store.outbox === undefined) return NEVER_MS
  const { isDone } = await store.outbox.dispatch()
  return isDone ? jittered(WAIT_MS, ports) : 0
}
