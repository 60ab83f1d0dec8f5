// Whether the machine keeps up: a small write by the lab itself, twice a second, past all links. While one takes longer than a
// second, the server is away or the machine is overloaded, and lateness is not checked.

import type { Recorder } from '../gen/recorder.js'
import type { PostgresServer } from '../servers/postgres.js'
import { onServer, sleep } from './on-server.js'
import { WITNESS } from './watch.js'

const EVERY_MS = 500
const SLOW_MS = 1_000

/** Writes until the signal fires, and records the slow spans. */
export async function probe(server: () => PostgresServer, recorder: Recorder, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const storeAt = Date.now()
    await onServer(server, (sql) => sql.query(`INSERT INTO ${WITNESS}.probes DEFAULT VALUES`)).catch(() => {})
    await sleep(EVERY_MS)
    const untilAt = Date.now()
    if (untilAt - storeAt > EVERY_MS + SLOW_MS) recorder.write({ ev: 'busy', storeAt, untilAt })
  }
}
