// Who holds the oldest snapshot of a store, in words.

import { showMs } from './duration.js'
import type { Horizon } from './operating.js'

/** One sentence for logs, warnings and `doctor`: who, since when, and what to do about it. */
export function describeHorizon({ ageMs, holder }: Horizon): string {
  const age = showMs(Math.round(ageMs / 1_000) * 1_000)
  if (holder === null) return `somebody has held an old snapshot for ${age}: dead rows pile up until it ends`
  const { kind, pid, user, application, state } = holder
  if (kind === 'slot') {
    return `replication slot "${user}" holds an old snapshot (${state}): dead rows pile up; drop the slot if nobody reads it`
  }
  if (kind === 'prepared') {
    return `prepared transaction "${application}" of ${user} is ${age} old: dead rows pile up; COMMIT PREPARED or ROLLBACK PREPARED it`
  }
  if (kind === 'standby') {
    return `standby "${application}" (process ${pid}) holds an old snapshot: dead rows pile up; look at hot_standby_feedback there`
  }
  const who = `process ${pid} (${application || 'no application name'}, user ${user ?? 'unknown'}, ${state ?? 'state unknown'})`
  return `${who} has held a snapshot for ${age}: dead rows pile up; end its transaction, or SELECT pg_terminate_backend(${pid})`
}
