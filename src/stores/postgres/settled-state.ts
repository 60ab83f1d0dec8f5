// Where a job went when it was settled under one lease: the expression that settle and watch share.

import type { Lease } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import type { Send } from './database.js'
import { plainArrayOf, type Statement, statement } from './statement.js'

/** A scalar expression over a row `lease (id, fence)`: the state the job was settled into under this very lease, or null. */
export const SETTLED_STATE = `
       coalesce((SELECT ending::text FROM :schema.finished WHERE finished.id = lease.id AND finished.fence = lease.fence),
                (SELECT 'dead' FROM :schema.dead WHERE dead.id = lease.id AND dead.fence = lease.fence),
                (SELECT CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END
                   FROM :schema.scheduled
                  WHERE scheduled.id = lease.id AND scheduled.fence = lease.fence),
                (SELECT 'blocked' FROM :schema.blocked WHERE blocked.id = lease.id AND blocked.fence = lease.fence),
                (SELECT 'ready' FROM :schema.ready WHERE ready.id = lease.id AND ready.moved AND ready.fence = lease.fence),
                (SELECT 'ready' FROM :schema.held WHERE held.id = lease.id AND held.fence = lease.fence))`

const SETTLED_BEFORE: Statement = statement(
  'settled_before',
  `
SELECT lease.id::text, lease.fence::text,${SETTLED_STATE} AS state,
       EXISTS (SELECT FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence)::text
  FROM unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)`,
)

interface Before {
  /** Null unless the job was settled under this very lease. */
  readonly state: JobState | null
  /** True while the lease holds. */
  readonly isHeld: boolean
}

/** What is known of leases that a settlement did not find. */
export async function settledBefore(send: Send, leases: readonly Lease[]): Promise<ReadonlyMap<string, Before>> {
  if (leases.length === 0) return new Map()
  const rows = await send(SETTLED_BEFORE, [
    plainArrayOf(leases.map(({ id }) => id)),
    plainArrayOf(leases.map(({ fence }) => fence)),
  ])
  return new Map(
    rows.map(([id, fence, state, held]) => [
      `${id} ${fence}`,
      { state: state as JobState | null, isHeld: held === 'true' },
    ]),
  )
}
