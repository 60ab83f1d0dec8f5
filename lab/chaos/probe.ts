// Whether the machine keeps up: a small write of the lab's own, twice a second, past all links. While one takes longer than a second, the
// server is away or everybody is short of time, and nobody is held to being on time.

import type { Recorder } from '../gen/recorder.js'
import type { PostgresServer } from '../servers/postgres.js'
import { onServer, sleep } from './on-server.js'
import { WITNESS } from './watch.js'

const EVERY_MS = 500
const SLOW_MS = 1_000

/** Writes until the signal fires, and tells of the times that were slow. */
export async function probe(server: () => PostgresServer, recorder: Recorder, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const storeAt = Date.now()
    await onServer(server, (sql) => sql.query(`INSERT INTO ${WITNESS}.probes DEFAULT VALUES`)).catch(() => {})
    await sleep(EVERY_MS)
    const untilAt = Date.now()
    if (untilAt - storeAt > EVERY_MS + SLOW_MS) recorder.write({ ev: 'busy', storeAt, untilAt })
  }
}
