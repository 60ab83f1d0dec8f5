// graphile-worker 0.18: its tables, and what its jobs are in our words. ◄── postgres-source.ts

import { safeText } from '../core/json.js'
import type { RetryPolicy } from '../core/retry.js'
import type { LeftThere, OldJob, OldKind, OldPage, OldRef, OldSchedule } from './contract.js'
import { readCrontab } from './crontab.js'
import type { PostgresDialect, Sql } from './postgres-source.js'

const PAGE_REFS_MAX = 50_000
const SCHEDULES_MAX = 10_000
/** From this attempt on its waits are equal. */
const LONGEST_WAIT_AT = 10

const KIND = `CASE WHEN job.attempts >= job.max_attempts THEN 'failed' WHEN job.run_at > now() THEN 'delayed' ELSE 'waiting' END`

const LIST = `
SELECT job.id::text, ${KIND} AS kind
  FROM :schema._private_jobs AS job
 WHERE job.locked_at IS NULL
   AND ($1 OR job.attempts < job.max_attempts)
   AND job.id > $2::bigint
 ORDER BY job.id
 LIMIT ${PAGE_REFS_MAX}`

const SELECT = `
SELECT job.id::text, ${KIND} AS kind, task.identifier AS type, queue.queue_name, job.payload::text AS payload, job.priority,
       date_part('epoch', job.run_at) * 1000 AS run_ms, job.attempts, job.max_attempts, job.last_error, job.key,
       ARRAY(SELECT flag FROM jsonb_object_keys(coalesce(job.flags, '{}')) AS flag ORDER BY flag) AS flags
  FROM :schema._private_jobs AS job
  JOIN :schema._private_tasks AS task ON task.id = job.task_id
  LEFT JOIN :schema._private_job_queues AS queue ON queue.id = job.job_queue_id
 WHERE job.id = ANY ($1::text[]::bigint[])
   AND job.locked_at IS NULL
 :lock`

const REMOVE = `DELETE FROM :schema._private_jobs AS job WHERE job.id = ANY ($1::text[]::bigint[])`

const LEFT = `SELECT count(*) AS active FROM :schema._private_jobs AS job WHERE job.locked_at IS NOT NULL`

const KNOWN_CRONTABS = `SELECT identifier FROM :schema._private_known_crontabs ORDER BY identifier LIMIT ${SCHEDULES_MAX}`

const PROBE = `
SELECT count(*) = 3 AS found
  FROM information_schema.columns
 WHERE table_schema = $1
   AND (table_name, column_name) IN (('_private_jobs', 'is_available'), ('_private_jobs', 'flags'), ('_private_tasks', 'identifier'))`

interface GraphileRow {
  readonly id: string
  readonly kind: OldKind
  readonly type: string
  readonly queue_name: string | null
  readonly payload: string
  readonly priority: number
  readonly run_ms: number
  readonly attempts: number
  readonly max_attempts: number
  readonly last_error: string | null
  readonly key: string | null
  readonly flags: readonly string[]
}

/** Where its jobs go: it has no queues in our sense. */
const QUEUE = 'default'

/** `crontab` is the text of the crontab file of its workers, or null. */
export function graphileWorker({ crontab }: { readonly crontab: string | null }): PostgresDialect {
  return {
    system: 'graphile-worker',
    probe: { text: PROBE, what: 'its tables _private_jobs and _private_tasks of version 0.18 are not there' },
    select: SELECT,
    remove: REMOVE,
    readOf: (row) => readJob(row as unknown as GraphileRow),
    refOf: ({ id }) => id,
    list,
    left,
    schedules: (sql) => schedules(sql, crontab),
    // Its schedules are in a file.
    removeSchedule: async () => {},
  }
}

async function list(sql: Sql, kinds: readonly OldKind[], after: string | null): Promise<OldPage> {
  const rows = await sql<{ id: string; kind: OldKind }>(LIST, [kinds.includes('failed'), after ?? '0'])
  const refs = rows.map(({ id, kind }): OldRef => ({ queue: QUEUE, id, kind, place: '' }))
  return { refs, next: rows.length < PAGE_REFS_MAX ? null : rows.at(-1)!.id }
}

async function left(sql: Sql): Promise<LeftThere> {
  const [row] = await sql<{ active: string }>(LEFT)
  return { active: Number(row!.active), inFlows: 0 }
}

function readJob(row: GraphileRow): OldJob {
  const isFailed = row.kind === 'failed'
  return {
    key: row.id,
    id: row.id,
    kind: row.kind,
    type: row.type,
    queue: QUEUE,
    payload: row.payload,
    // Lower runs first there.
    priority: -row.priority,
    runAtMs: row.kind === 'delayed' ? row.run_ms : null,
    attemptsMade: row.attempts,
    maxAttempts: row.max_attempts,
    retry: retryOf(isFailed ? 0 : row.attempts),
    timeoutMs: null,
    idempotencyKey: row.key,
    group: row.queue_name,
    tags: row.flags.map((flag) => `flag:${flag}`),
    trace: null,
    error: isFailed ? { name: 'Error', message: safeText(row.last_error ?? '', 4_096) } : null,
    lacks: [
      ...(row.queue_name === null
        ? []
        : ['queue name: kept as the group; --group-concurrency 1 makes its jobs run one by one']),
      ...(row.flags.length === 0 ? [] : ['flags: kept as tags; workers here choose by queue and type']),
    ],
  }
}

/** It waits e to the power of the attempt seconds, at most that of the tenth. The waits go on where they stood. */
function retryOf(made: number): RetryPolicy {
  const first = Math.min(made + 1, LONGEST_WAIT_AT)
  const waits = Array.from({ length: LONGEST_WAIT_AT - first + 1 }, (_, index) =>
    Math.round(Math.exp(first + index) * 1_000),
  )
  return { backoff: waits, baseMs: waits[0]!, capMs: waits.at(-1)!, jitter: false }
}

/** Those of the file, and the names of others that its workers have run. */
async function schedules(sql: Sql, crontab: string | null): Promise<readonly OldSchedule[]> {
  const ofFile = crontab === null ? [] : readCrontab(crontab, QUEUE)
  const rows = await sql<{ identifier: string }>(KNOWN_CRONTABS)
  const named = new Set(ofFile.map(({ ref }) => ref))
  const others = rows.filter(({ identifier }) => !named.has(identifier))
  return [...ofFile, ...others.map(({ identifier }) => unknown(identifier, crontab === null))]
}

function unknown(identifier: string, hasNoFile: boolean): OldSchedule {
  return {
    ref: identifier,
    name: identifier,
    type: identifier,
    queue: QUEUE,
    payload: 'null',
    priority: 0,
    when: { cron: '' },
    zone: 'UTC',
    untilMs: null,
    nextAtMs: null,
    maxAttempts: null,
    catchUp: 'skip',
    catchUpMax: 1,
    lacks: [],
    problem: hasNoFile
      ? 'when it fires is in the crontab of its workers: give the file with --crontab'
      : 'it is not in the crontab: no longer used, or in code',
    isRemovable: false,
  }
}
