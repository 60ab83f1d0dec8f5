// settle, of successes that hold slots of groups and limits: the statement of settle-succeeded.ts, with events. ◄── settle.ts

import type { SettledJob } from '../../core/job.js'
import type { Call, Database } from './database.js'
import { queuesToWake } from './held-place.js'
import { freeKeys } from './key-rows.js'
import { settleSucceeded, settleSucceededSql } from './settle-succeeded.js'
import { plainArrayOf, statement } from './statement.js'

// A slot of a group is free for all tracks of its queue. Almost every queue has one track, so that the others are looked for once for each
// queue and not once for each group. An event is always written, see held-place.ts.
const EVENTS = `touched AS MATERIALIZED (
  SELECT DISTINCT gone.queue, gone.track, gone.group_name FROM gone WHERE gone.track > 0 AND gone.group_name <> ''
), split_queues AS MATERIALIZED (
  SELECT mine.queue
    FROM (SELECT DISTINCT touched.queue FROM touched) AS mine
   WHERE (SELECT count(*) FROM (SELECT FROM :schema.tracks WHERE tracks.queue = mine.queue LIMIT 2) AS few) > 1
), arrived AS (
  INSERT INTO :schema.arrivals (turn, track, group_name)
  SELECT (SELECT pg_catalog.nextval(':schema.positions') * 65536), event.track, event.group_name
    FROM (SELECT touched.track, touched.group_name FROM touched
           UNION ALL
          SELECT tracks.track, touched.group_name
            FROM touched
           CROSS JOIN LATERAL (
             SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = touched.queue AND tracks.track <> touched.track OFFSET 0
           ) AS tracks
           WHERE (touched.queue IN (SELECT split_queues.queue FROM split_queues)) IS TRUE) AS event
)`

const SETTLE_SUCCEEDED_FLOW = statement(
  'settle_succeeded_flow',
  settleSucceededSql(
    `, freed AS (${freeKeys('SELECT id FROM gone WHERE id = ANY ($9::uuid[])')}
), ${EVENTS}`,
    ', queue, track, group_name',
    `,${queuesToWake('gone', '$10::boolean')} AS woken`,
  ),
)

/** How jobs are settled. */
interface FlowOptions {
  readonly isInTransaction: boolean
  /** True while somebody holds an old snapshot. A look for jobs that wait would read those that waited since; workers are woken without. */
  readonly hasOldSnapshot: boolean
}

/** As `settleSucceeded`, for any jobs. */
export function settleSucceededAny(db: Database, jobs: readonly SettledJob[], options: FlowOptions): Call {
  const [plain, values] = settleSucceeded(db, jobs, options.isInTransaction)
  if (jobs.every(({ flow }) => flow === undefined)) return [plain, values]
  const withKeys = values.length === 9 ? values : [...values, plainArrayOf([])]
  return [SETTLE_SUCCEEDED_FLOW, [...withKeys, options.hasOldSnapshot]]
}
