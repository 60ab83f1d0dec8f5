// What the audit log says about a change beyond that it was made.

import { given } from './given.js'
import type { JobChanges } from './operator-store.js'

/** The changes of a job; of a payload only that it was replaced, because the log is no place for payloads. */
export function changeDetails({ priority, runAtMs, payload }: JobChanges): Readonly<Record<string, unknown>> {
  const runAt = typeof runAtMs === 'number' ? new Date(runAtMs).toISOString() : runAtMs
  return given({ priority, runAt, payload: payload === undefined ? undefined : 'replaced' })
}
