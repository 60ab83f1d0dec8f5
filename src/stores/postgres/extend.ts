// begin, extend, watch: what a worker reports and asks about the leases it holds.

import { type Lease, leaseName, leaseOf } from '../../core/job.js'
import type { Extension, Watch } from '../../core/job-store.js'
import type { Database } from './database.js'
import { SETTLED_STATE } from './settled-state.js'
import { arrayOf, type Row, statement } from './statement.js'

// A locked row is being settled, perhaps inside a handler's own long transaction. It is skipped, so that it does not delay the extension
// of all others. Its lease is not lost either, so held leases are read in a separate query without locks.
const EXTEND = statement(
  'extend',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lease AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[]) AS lease (id, fence)
), held AS MATERIALIZED (
  SELECT lease.id, lease.fence, row.cancel_requested
    FROM lease
   CROSS JOIN LATERAL (
     SELECT running.cancel_requested FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence OFFSET 0
   ) AS row
), free AS MATERIALIZED (
  SELECT held.id
    FROM held
   CROSS JOIN LATERAL (
     SELECT FROM :schema.running WHERE running.id = held.id AND running.fence = held.fence FOR UPDATE SKIP LOCKED
   ) AS row
), extended AS (
  UPDATE :schema.running
     SET leased_until = moment.now + $4 * interval '1 millisecond'
    FROM moment
   WHERE running.id = ANY (ARRAY(SELECT id FROM free))
)
SELECT id::text, fence::text, (cancel_requested OR EXISTS (SELECT FROM :schema.cancels WHERE cancels.id = held.id))::text
  FROM held`,
)

// One statement, so that held and settled are read from one snapshot: a job that is neither is lost for good.
const WATCH = statement(
  'watch',
  `
SELECT lease.id::text, lease.fence::text,
       (row.cancel_requested
        OR row.cancel_requested IS NOT NULL AND EXISTS (SELECT FROM :schema.cancels WHERE cancels.id = lease.id))::text,
       CASE WHEN row.cancel_requested IS NULL THEN ${SETTLED_STATE} END
  FROM unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)
  LEFT JOIN LATERAL (
   SELECT running.cancel_requested FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence OFFSET 0
 ) AS row ON true`,
)

const BEGIN = statement(
  'begin_suspect',
  `
WITH held AS MATERIALIZED (
  SELECT lease.id
    FROM unnest($1::uuid[], $2::bigint[]) AS lease (id, fence)
   CROSS JOIN LATERAL (
     SELECT FROM :schema.running WHERE running.id = lease.id AND running.fence = lease.fence OFFSET 0
   ) AS row
)
UPDATE :schema.running
   SET begun = true
 WHERE running.id = ANY (ARRAY(SELECT id FROM held))`,
)

export async function extend(db: Database, leases: readonly Lease[], leaseMs: number): Promise<Extension> {
  if (leases.length === 0) return { lost: [], cancelled: [] }
  const rows = await db.send('extend', EXTEND, [db.now(), ...columns(leases), leaseMs])
  return readExtension(leases, rows)
}

export async function watch(db: Database, leases: readonly Lease[]): Promise<Watch> {
  if (leases.length === 0) return { lost: [], cancelled: [], settled: [] }
  const rows = await db.send('extend', WATCH, columns(leases))
  const held = rows.filter(([, , cancel]) => cancel !== null)
  const settled = new Set(rows.filter(([, , , state]) => state !== null).map(([id, fence]) => `${id} ${fence}`))
  return {
    ...readExtension(leases, held),
    settled: leases.filter((lease) => settled.has(leaseName(lease))).map(leaseOf),
  }
}

export async function begin(db: Database, leases: readonly Lease[]): Promise<void> {
  if (leases.length > 0) await db.send('extend', BEGIN, columns(leases))
}

function columns(leases: readonly Lease[]): [string, string] {
  return [arrayOf(leases.map(({ id }) => id)), arrayOf(leases.map(({ fence }) => fence))]
}

function readExtension(leases: readonly Lease[], rows: readonly Row[]): Extension {
  const held = new Map(rows.map(([id, fence, cancel]) => [`${id} ${fence}`, cancel === 'true']))
  return {
    lost: leases.filter((lease) => !held.has(leaseName(lease))).map(leaseOf),
    cancelled: leases.filter((lease) => held.get(leaseName(lease)) === true).map(leaseOf),
  }
}
