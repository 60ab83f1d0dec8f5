// Whether the machine keeps up: a small write by the lab itself, twice a second, past all links. While one takes
// too long, the server is away or the machine is overloaded, and lateness is not checked.

import type { Recorder } from '../gen/recorder.js'
import { sleep } from './sleep.js'
import type { Stage } from './stage.js'

const EVERY_MS = 500

/** Writes until the signal fires, and records the slow spans. */
export async function probe(
  stage: Stage,
  recorder: Recorder,
  { signal, slowMs }: { readonly signal: AbortSignal; readonly slowMs: number },
): Promise<void> {
  while (!signal.aborted) {
    const storeAt = Date.now()
    await stage.probe().catch(() => {})
    await sleep(EVERY_MS)
    const untilAt = Date.now()
    if (untilAt - storeAt > EVERY_MS + slowMs) recorder.write({ ev: 'busy', storeAt, untilAt })
  }
}
