// pg-boss 12: its tables, and what its jobs are in our words. ◄── postgres-source.ts

import { isTraceparent } from '../client/enqueue-options.js'
import { type StoredError, safeText } from '../core/json.js'
import type { RetryPolicy } from '../core/retry.js'
import type { LeftThere, OldJob, OldKind, OldPage, OldRef, OldSchedule } from './contract.js'
import type { PostgresDialect, Sql } from './postgres-source.js'

/** Ids of one page: enough that the order is made seldom, few enough for memory. */
const PAGE_REFS_MAX = 50_000
const SCHEDULES_MAX = 10_000
const CAP_MS_MAX = 86_400_000

// Jobs of pg-boss itself, and those that wait for others or that others wait for, are left alone. A job of a dependency that is taken would leave
// its dependants waiting for ever.
const OURS = `job.name NOT LIKE '\\_\\_pgboss\\_\\_%' AND NOT job.blocked AND NOT job.blocking`

const KIND = `CASE WHEN job.state = 'failed' THEN 'failed' WHEN job.start_after > now() THEN 'delayed' ELSE 'waiting' END`

const LIST = `
SELECT job.name, job.id::text, ${KIND} AS kind, job.created_on::text AS created
  FROM :schema.job
 WHERE (job.state IN ('created', 'retry') OR $1 AND job.state = 'failed')
   AND ${OURS}
   AND ($2::text IS NULL OR (job.created_on, job.id) > ($2::timestamptz, $3::uuid))
 ORDER BY job.created_on, job.id
 LIMIT ${PAGE_REFS_MAX}`

const SELECT = `
SELECT job.*
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (ref, place)
 CROSS JOIN LATERAL (
   SELECT job.name, job.id::text, ${KIND} AS kind, job.priority, job.data::text AS payload, job.state::text AS state,
          job.retry_limit, job.retry_count, job.retry_delay, job.retry_backoff, job.retry_delay_max, job.expire_seconds,
          job.singleton_key, job.policy, job.group_id, job.group_tier, job.dead_letter, job.heartbeat_seconds, job.singleton_on,
          job.started_on IS NOT NULL AS was_started, job.output, job.trace_context,
          date_part('epoch', job.start_after) * 1000 AS start_ms
     FROM :schema.job AS job
    WHERE job.name = substr(asked.ref, 38) AND job.id = left(asked.ref, 36)::uuid
      AND job.state IN ('created', 'retry', 'failed') AND ${OURS}
   :lock
 ) AS job
 ORDER BY asked.place`

const REMOVE = `
DELETE FROM :schema.job AS job
 USING (SELECT substr(ref, 38) AS name, left(ref, 36)::uuid AS id FROM unnest($1::text[]) AS asked (ref)) AS taken
 WHERE job.name = taken.name AND job.id = taken.id`

const LEFT = `
SELECT count(*) FILTER (WHERE job.state = 'active') AS active,
       count(*) FILTER (WHERE job.state <> 'active' AND (job.blocked OR job.blocking)) AS in_flows
  FROM :schema.job AS job
 WHERE job.name NOT LIKE '\\_\\_pgboss\\_\\_%'
   AND job.state IN ('created', 'retry', 'active')`

const SCHEDULES = `
SELECT schedule.name, schedule.key, schedule.kind, schedule.cron, schedule.timezone, schedule.data::text AS payload, schedule.options
  FROM :schema.schedule
 ORDER BY schedule.name, schedule.key
 LIMIT ${SCHEDULES_MAX}`

const PROBE = `
SELECT count(*) = 3 AS found
  FROM information_schema.columns
 WHERE table_schema = $1
   AND (table_name, column_name) IN (('job', 'singleton_key'), ('job', 'blocking'), ('schedule', 'kind'))`

interface BossRow {
  readonly name: string
  readonly id: string
  readonly kind: OldKind
  readonly priority: number
  readonly payload: string | null
  readonly state: string
  readonly retry_limit: number
  readonly retry_count: number
  readonly retry_delay: number
  readonly retry_backoff: boolean
  readonly retry_delay_max: number | null
  readonly expire_seconds: number
  readonly singleton_key: string | null
  readonly singleton_on: unknown
  readonly policy: string | null
  readonly group_id: string | null
  readonly group_tier: string | null
  readonly dead_letter: string | null
  readonly heartbeat_seconds: number | null
  readonly was_started: boolean
  readonly output: unknown
  readonly trace_context: unknown
  readonly start_ms: number
}

export const pgBoss: PostgresDialect = {
  system: 'pg-boss',
  probe: { text: PROBE, what: 'its tables job and schedule of version 12 are not there' },
  select: SELECT,
  remove: REMOVE,
  readOf: (row) => readJob(row as unknown as BossRow),
  refOf: ({ queue, id }) => `${id} ${queue}`,
  list,
  left,
  schedules,
  async removeSchedule(sql, { ref }) {
    const [name, key] = JSON.parse(ref)
    await sql('DELETE FROM :schema.schedule WHERE name = $1 AND key = $2', [name, key])
  },
}

async function list(sql: Sql, kinds: readonly OldKind[], after: string | null): Promise<OldPage> {
  const [created, id] = after === null ? [null, null] : after.split('|')
  const rows = await sql<{ name: string; id: string; kind: OldKind; created: string }>(LIST, [
    kinds.includes('failed'),
    created,
    id,
  ])
  const refs = rows.map((row): OldRef => ({ queue: row.name, id: row.id, kind: row.kind, place: '' }))
  const last = rows.length < PAGE_REFS_MAX ? undefined : rows.at(-1)
  return { refs, next: last === undefined ? null : `${last.created}|${last.id}` }
}

async function left(sql: Sql): Promise<LeftThere> {
  const [row] = await sql<{ active: string; in_flows: string }>(LEFT)
  return { active: Number(row!.active), inFlows: Number(row!.in_flows) }
}

function readJob(row: BossRow): OldJob {
  const attemptsMade = row.was_started ? row.retry_count + 1 : 0
  return {
    key: row.id,
    id: row.id,
    kind: row.kind,
    type: row.name,
    queue: row.name,
    payload: row.payload ?? 'null',
    priority: row.priority,
    runAtMs: row.kind === 'delayed' ? row.start_ms : null,
    attemptsMade,
    maxAttempts: row.retry_limit + 1,
    retry: retryOf(row, row.kind === 'failed' ? 0 : attemptsMade),
    timeoutMs: row.expire_seconds * 1_000,
    idempotencyKey: isUnique(row) ? row.singleton_key : null,
    group: row.group_id ?? (row.policy === 'key_strict_fifo' ? row.singleton_key : null),
    tags: row.singleton_key === null ? [] : [`singletonKey:${row.singleton_key}`],
    trace: traceOf(row.trace_context),
    error: row.state === 'failed' ? errorOf(row.output) : null,
    lacks: lacksOf(row),
  }
}

/** Whether pg-boss lets no second job with this key wait. */
function isUnique({ policy, singleton_key: key }: BossRow): boolean {
  return key !== null && ['short', 'stately', 'exclusive'].includes(policy ?? '')
}

/** The waits go on where they stood, though attempts are counted from 1 again. */
function retryOf(
  { retry_delay: delay, retry_backoff: grows, retry_delay_max: cap }: BossRow,
  made: number,
): RetryPolicy {
  const capMs = cap === null ? CAP_MS_MAX : cap * 1_000
  if (!grows) return { backoff: 'fixed', baseMs: delay * 1_000, capMs: Math.max(capMs, delay * 1_000), jitter: false }
  const baseMs = Math.min(capMs, Math.max(1, delay) * 1_000 * 2 ** Math.min(made, 16))
  return { backoff: 'exponential', baseMs, capMs: Math.max(capMs, baseMs), jitter: true }
}

function traceOf(context: unknown): string | null {
  const parent = (context as { traceparent?: unknown } | null)?.traceparent
  return isTraceparent(parent) ? parent : null
}

/** pg-boss keeps an error as an object, and any other output as { value }. */
function errorOf(output: unknown): StoredError {
  const { name, message, stack } = (typeof output === 'object' && output !== null ? output : {}) as Record<
    string,
    unknown
  >
  return {
    name: typeof name === 'string' ? safeText(name, 100) : 'Error',
    message: safeText(typeof message === 'string' ? message : (JSON.stringify(output) ?? 'null'), 4_096),
    ...(typeof stack === 'string' ? { stack: safeText(stack, 8_192) } : {}),
  }
}

function lacksOf(row: BossRow): string[] {
  const lacks: string[] = []
  if (row.policy === 'key_strict_fifo')
    lacks.push('policy key_strict_fifo: the key is the group; set the queue to ordered groups')
  else if (row.policy === 'singleton' || row.policy === 'stately')
    lacks.push(`policy ${row.policy}: set the concurrency of the queue to 1`)
  else if (row.policy === 'short' && row.singleton_key === null)
    lacks.push('policy short without a key: give the jobs a key')
  else if (row.singleton_key !== null && !isUnique(row))
    lacks.push('singletonKey in a queue that may have several: kept as a tag')
  if (row.singleton_on !== null && row.singleton_on !== undefined)
    lacks.push('singletonSeconds: use throttle or debounce')
  if (row.group_tier !== null) lacks.push('group tier: set the group with holdfast groups set')
  if (row.dead_letter !== null) lacks.push('deadLetter queue: dead jobs are in the dead-letter queue of Holdfast')
  if (row.heartbeat_seconds !== null) lacks.push('heartbeatSeconds: workers extend leases by themselves')
  return lacks
}

interface ScheduleRow extends Record<string, unknown> {
  readonly name: string
  readonly key: string
  readonly kind: string
  readonly cron: string
  readonly timezone: string | null
  readonly payload: string | null
  readonly options: Readonly<Record<string, unknown>> | null
}

async function schedules(sql: Sql): Promise<readonly OldSchedule[]> {
  const rows = await sql<ScheduleRow>(SCHEDULES)
  return rows.map(({ name, key, kind, cron, timezone, payload, options }): OldSchedule => {
    const { priority, retryLimit, missed } = options ?? {}
    return {
      ref: JSON.stringify([name, key]),
      name: key === '' ? name : `${name}:${key}`,
      type: name,
      queue: name,
      payload: payload ?? 'null',
      priority: typeof priority === 'number' ? priority : 0,
      when: { cron },
      zone: timezone ?? 'UTC',
      untilMs: null,
      nextAtMs: null,
      maxAttempts: typeof retryLimit === 'number' ? retryLimit + 1 : null,
      catchUp: missed === 'once' ? 'latest' : 'skip',
      catchUpMax: 100,
      lacks: singletonOf(options ?? {}),
      problem: kind === 'cron' ? null : `its rule is of kind ${kind}, and Holdfast has cron`,
      isRemovable: true,
    }
  })
}

const KNOWN_OPTIONS = new Set(['priority', 'retryLimit', 'missed', 'tz', 'key'])

function singletonOf(options: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(options)
    .filter((name) => !KNOWN_OPTIONS.has(name))
    .map((name) => `option ${name.slice(0, 60)} of a schedule`)
}
