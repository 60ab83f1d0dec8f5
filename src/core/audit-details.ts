// What the audit log says about a change beyond that it was made.

import type { JobChanges } from './operator-store.js'

/** The changes of a job; of a payload only that it was replaced, because the log is no place for payloads. */
export function changeDetails({ priority, runAtMs, payload }: JobChanges): Readonly<Record<string, unknown>> {
  return {
    ...(priority === undefined ? {} : { priority }),
    ...(runAtMs === undefined ? {} : { runAt: runAtMs === null ? null : new Date(runAtMs).toISOString() }),
    ...(payload === undefined ? {} : { payload: 'replaced' }),
  }
}
