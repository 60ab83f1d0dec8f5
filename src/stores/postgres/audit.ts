// audit: who did what. Operations on jobs, queues and schedules write their lines in their own statements.

import type { AuditEntry, AuditPage, AuditRecord, AuditRequest } from '../../core/operating.js'
import type { PruneAuditOptions } from '../../core/upkeep-store.js'
import type { Database, Send } from './database.js'
import { type Row, readDate, readJson, statement } from './statement.js'

const RECORD = statement(
  'record',
  `
INSERT INTO :schema.audit (at, actor, action, job, target, details)
VALUES (coalesce($1::timestamptz, clock_timestamp()), $2, $3, $4::uuid, $5, $6::json)`,
)

/** Writes a line. */
export async function record(db: Database, send: Send, entry: AuditRecord): Promise<void> {
  const { actor, action, job = null, target = null, details = null } = entry
  await send(RECORD, [db.now(), actor, action, job, target, details === null ? null : JSON.stringify(details)])
}

/** Lines that go in one call. */
const PRUNED_MAX = 5_000

// Reads from the oldest line up to the first one that is kept, so it reads one line more than it deletes.
const PRUNE = statement(
  'prune_audit',
  `
WITH oldest AS MATERIALIZED (
  SELECT line,
         at < coalesce($1::timestamptz, clock_timestamp()) - $2::float8 * interval '1 millisecond'
         OR line <= (SELECT max(line) FROM :schema.audit) - $3::bigint AS is_old
    FROM :schema.audit
   ORDER BY line
   LIMIT $4
), kept AS MATERIALIZED (
  SELECT min(line) AS line FROM oldest WHERE NOT is_old
), gone AS (
  DELETE FROM :schema.audit
   WHERE line = ANY (ARRAY(SELECT line FROM oldest WHERE line < coalesce((SELECT line FROM kept), 9223372036854775807)))
  RETURNING 1
)
SELECT count(*) FROM gone`,
)

export async function pruneAudit(db: Database, { keptMs, linesMax }: PruneAuditOptions): Promise<number> {
  const [[count] = []] = await db.send('upkeep', PRUNE, [db.now(), keptMs, linesMax, PRUNED_MAX])
  return Number(count)
}

/** How many lines one page looks through when it is narrowed. */
const WINDOW = 5_000

const auditSql = (ofJob: string) => `
WITH candidate AS MATERIALIZED (
  SELECT *
    FROM :schema.audit
   WHERE audit.line < coalesce($1::bigint, 9223372036854775807)
     ${ofJob}
   ORDER BY audit.line DESC
   LIMIT $6
)
SELECT (SELECT count(*) FROM candidate), (SELECT min(line) FROM candidate), found.*
  FROM (SELECT) AS always
  LEFT JOIN (
    SELECT line, (extract(epoch FROM at) * 1000)::float8, actor, action, job, target, details
      FROM candidate
     WHERE ($3::text IS NULL OR actor = $3)
       AND ($4::text IS NULL OR action = $4)
     ORDER BY line DESC
     LIMIT $5
  ) AS found ON true`

const AUDIT = statement('audit', auditSql('AND $2::uuid IS NULL'))
const AUDIT_OF_JOB = statement('audit_of_job', auditSql('AND audit.job = $2::uuid'))

export async function audit(db: Database, request: AuditRequest): Promise<AuditPage> {
  const { before, limit, action = null, actor = null, job = null } = request
  const values = [before, job, actor, action, limit + 1, WINDOW]
  const rows = await db.send('look', job === null ? AUDIT : AUDIT_OF_JOB, values)
  const [looked, oldest] = rows[0]!
  const found = rows
    .filter(([, , line]) => line !== null)
    .map(([, , ...entry]) => readEntry(entry))
    .sort((one, other) => other.line - one.line)
  const entries = found.slice(0, limit)
  if (found.length > limit) return { entries, next: entries.at(-1)!.line }
  return { entries, next: Number(looked) === WINDOW ? Number(oldest) : null }
}

function readEntry([line, at, actor, action, job = null, target = null, details]: Row): AuditEntry {
  return {
    line: Number(line),
    at: readDate(at)!,
    actor: actor!,
    action: action!,
    job,
    target,
    details: readJson(details),
  }
}
