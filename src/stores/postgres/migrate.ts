// The schema's migrations (migrations/NNNN_what.ts): applied once, in order, by any number of processes that start at the same moment.
//
// Jobs go on while a migration is applied, so these are the rules for writing one:
//
// - Each migration is one transaction. It waits at most 100 ms for a lock, because everyone else waits behind it, and the whole of
//   it ends within 250 ms of its first lock on a table that was there. Otherwise it is rolled back and tried again after a pause;
//   after a minute it gives up and names who holds the lock. So: no rewriting of tables, no scans of large ones, no data moved.
// - An index on a table that may be large is built by a migration of its own that begins with the line `-- concurrently` and holds
//   nothing but CREATE INDEX CONCURRENTLY. It runs outside a transaction and locks nobody out. What a crash leaves of it is an
//   invalid index of that name, which the next start drops and builds again.
// - Statements end with a semicolon at the end of a line; bodies of functions are between lines with $$.

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError, isHoldfastError } from '../../core/errors.js'
import { describeHolder, LOCK_HOLDER_SQL } from './lock-holder.js'
import { MIGRATIONS } from './migrations/index.js'
import type { Migration } from './migrations/migration.js'
import { inSchema, type Row } from './statement.js'
import type { StatementLane } from './statement-lane.js'

// Index builds on large tables take long; nothing else waits for this deadline.
const DEADLINE_MS = 300_000
const LOCK_MS = 100
/** The longest that others are locked out. */
const LOCKED_OUT_MS = 250
const PATIENCE_MS = 60_000
const PAUSE_MIN_MS = 100
const PAUSE_MAX_MS = 2_000
const LOCKED = new Set<unknown>(['55P03', '57014', '40P01'])

export interface MigrateOptions {
  /** The table that says which were applied. Default 'migrations'. */
  readonly table?: string
  /** Default: those of this version. */
  readonly migrations?: readonly Migration[]
  /** How long it goes on trying to get its locks. Default 60 000. */
  readonly patienceMs?: number
  /** Called with a message each time it could not get them. */
  readonly onWait?: (text: string) => void
}

/** Where it is recorded what was applied: several sets of tables can share a schema. */
interface Place {
  readonly schema: string
  readonly table: string
}

const TABLE = 'migrations'

type Run = (text: string, values?: readonly unknown[]) => Promise<Row[]>

/** Brings the schema up to this version; raises `schema_too_new` when it is ahead of it, `store_unavailable` when others hold locks on
 *  its tables for too long. */
export async function migrate(lane: StatementLane, schema: string, options: MigrateOptions = {}): Promise<void> {
  const { table = TABLE, migrations = MIGRATIONS, patienceMs = PATIENCE_MS, onWait = () => {} } = options
  const place = { schema, table }
  const run: Run = (text, values = []) => lane.query({ name: '', text, values }, DEADLINE_MS)
  // Most starts find everything in place, and may lack the right to change it.
  const applied = await readApplied(run, schema, migrations, table)
  const isNew = applied.size === 0
  const untilMs = performance.now() + patienceMs
  for (const migration of migrations) {
    if (applied.has(migration.number)) continue
    await unlessLocked({ migration, schema, run, untilMs, onWait }, () =>
      // Nobody uses a schema that is being made, and an index that is built concurrently waits for every open transaction.
      isConcurrent(migration) && !isNew
        ? applyConcurrently(lane, run, place, migration)
        : applyInTransaction(lane, place, migration, isNew),
    )
  }
}

/** The numbers of the migrations that were applied; raises `schema_too_new` when there are some beyond those known. */
export async function readApplied(
  run: Run,
  schema: string,
  known: readonly Migration[],
  table: string = TABLE,
): Promise<Set<number>> {
  const [[found] = []] = await run('SELECT to_regclass($1)', [`"${schema}".${table}`])
  if (found == null) return new Set()
  const rows = await run(inSchema(`SELECT number FROM :schema.${table} ORDER BY number LIMIT 10000`, schema))
  const applied = new Set(rows.map(([number]) => Number(number)))
  const [newest, last] = [Math.max(0, ...applied), known.at(-1)!.number]
  if (newest <= last) return applied
  throw new HoldfastError(
    'schema_too_new',
    `schema "${schema}" is at migration ${newest}, this version knows up to ${last}: upgrade the package before starting this process`,
    { details: { schema, applied: newest, known: last } },
  )
}

interface Attempt {
  readonly migration: Migration
  readonly schema: string
  readonly run: Run
  readonly untilMs: number
  readonly onWait: (text: string) => void
}

/** Tries until it gets its locks. `apply` resolves with false while another process is migrating. */
async function unlessLocked(attempt: Attempt, apply: () => Promise<boolean>): Promise<void> {
  const { migration, schema, run, untilMs, onWait } = attempt
  const name = `migration ${migration.number} (${migration.name}) of schema "${schema}"`
  for (let pauseMs = PAUSE_MIN_MS; ; pauseMs = Math.min(PAUSE_MAX_MS, pauseMs * 2)) {
    let why = 'another process is migrating it'
    let cause: unknown
    try {
      if (await apply()) return
    } catch (error) {
      if (!isHoldfastError(error) || !LOCKED.has(error.details.sqlState)) throw error
      cause = error
      const [holder] = await run(inSchema(LOCK_HOLDER_SQL, schema))
      // Tables that another process is creating are not visible to us yet.
      if (holder !== undefined) why = `its tables are in use by ${describeHolder(holder)}`
    }
    if (performance.now() + pauseMs > untilMs) {
      throw new HoldfastError(
        'store_unavailable',
        `${name} could not be applied in time: ${why}; nothing was changed, start again when that has ended`,
        { retryable: true, cause, details: { schema, migration: migration.number } },
      )
    }
    onWait(`${name} waits, and jobs go on meanwhile: ${why}`)
    await sleep(pauseMs)
  }
}

const createTable = (table: string) => `CREATE TABLE IF NOT EXISTS :schema.${table} (
  number     integer     NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`

// Locks of a kind that others wait for, on tables that were there before this transaction.
const HOLDS_LOCKS = `
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks
                WHERE pid = pg_backend_pid() AND granted AND locktype = 'relation'
                  AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
                  AND relation = ANY ($1::oid[]))`
const TABLES = `
SELECT coalesce(array_agg(oid), '{}') FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p')`

// What PostgreSQL answers to the second of two processes that make the same schema or table. Which one it is depends on the moment of
// the first one's commit: a table is also a type of the same name, which is looked up later than the table itself (42710).
const MADE_ALREADY = new Set<unknown>(['23505', '42P06', '42P07', '42710'])

/** Applies it; resolves with false when another process has begun to make the schema at the same moment. */
async function applyInTransaction(
  lane: StatementLane,
  place: Place,
  migration: Migration,
  isNew: boolean,
): Promise<boolean> {
  const { schema, table } = place
  let isMaking = isNew
  const apply = async (inside: Run) => {
    await inside(`SET LOCAL lock_timeout = '${LOCK_MS}ms'`)
    if (isNew) await makeSchema(inside, place)
    isMaking = false
    // One process at a time. Only the owner may take this lock: any role that may connect can take an advisory lock.
    await inside(inSchema(`LOCK TABLE :schema.${table} IN SHARE ROW EXCLUSIVE MODE NOWAIT`, schema))
    const record = `SELECT FROM :schema.${table} WHERE number = $1`
    if ((await inside(inSchema(record, schema), [migration.number])).length > 0) return
    const sql = inSchema(isNew ? migration.sql.replace(' CONCURRENTLY ', ' ') : migration.sql, schema)
    if (isNew) for (const text of statementsOf(sql)) await inside(text)
    else await applyInTime(inside, statementsOf(sql), schema)
    await recordIn(inside, place, migration)
  }
  try {
    await lane.transaction((send) => apply((text, values = []) => send({ name: '', text, values })), DEADLINE_MS)
    return true
  } catch (error) {
    if (isMaking && isHoldfastError(error) && MADE_ALREADY.has(error.details.sqlState)) return false
    throw error
  }
}

// Making a schema takes a right on the database, filling one that is there does not.
async function makeSchema(inside: Run, { schema, table }: Place): Promise<void> {
  const [[found] = []] = await inside('SELECT to_regnamespace($1)', [schema])
  if (found === null) await inside(inSchema('CREATE SCHEMA :schema', schema))
  await inside(inSchema(createTable(table), schema))
}

/** Each statement within what is left of the time, which begins with the first lock that others wait for. */
async function applyInTime(inside: Run, texts: readonly string[], schema: string): Promise<void> {
  const [[tables] = []] = await inside(TABLES, [`"${schema}"`])
  let heldFromMs: number | null = null
  for (const text of texts) {
    const startMs = performance.now()
    const leftMs = LOCKED_OUT_MS - (heldFromMs === null ? 0 : startMs - heldFromMs)
    await inside(`SET LOCAL statement_timeout = '${Math.max(1, Math.floor(leftMs))}ms'`)
    await inside(text)
    if (heldFromMs !== null) continue
    const [[holdsLocks] = []] = await inside(HOLDS_LOCKS, [tables])
    if (holdsLocks === 't') heldFromMs = startMs
  }
}

async function recordIn(run: Run, { schema, table }: Place, { number, name, sql }: Migration): Promise<void> {
  const checksum = createHash('sha256').update(sql).digest('hex')
  const record = `INSERT INTO :schema.${table} (number, name, checksum) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
  await run(inSchema(record, schema), [number, name, checksum])
}

/** Whether it builds an index without locking anyone out. */
export function isConcurrent({ sql }: Migration): boolean {
  return sql.startsWith('-- concurrently\n')
}

const INDEX_STATE = `
SELECT pg_index.indisvalid, progress.pid
  FROM pg_catalog.pg_index
  LEFT JOIN pg_catalog.pg_stat_progress_create_index AS progress ON progress.index_relid = pg_index.indexrelid
 WHERE pg_index.indexrelid = to_regclass($1)`

/** Builds an index outside a transaction; resolves with false while another process builds it. */
async function applyConcurrently(lane: StatementLane, run: Run, place: Place, migration: Migration): Promise<boolean> {
  const { schema } = place
  const name = /CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON/.exec(migration.sql)?.[1]
  if (name === undefined) {
    throw new HoldfastError(
      'unsupported',
      `migration ${migration.number} (${migration.name}) is marked "-- concurrently" and has no CREATE INDEX CONCURRENTLY name ON: a migration of that kind holds nothing else`,
    )
  }
  const [[isValid, builder] = []] = await run(INDEX_STATE, [`"${schema}"."${name}"`])
  if (builder != null) return false
  // A build that was cut off leaves an index that is kept up to date and never used.
  if (isValid === 'f') await run(inSchema(`DROP INDEX CONCURRENTLY :schema.${name}`, schema))
  if (isValid !== 't') for (const text of statementsOf(inSchema(migration.sql, schema))) await run(text)
  await lane.transaction(
    (send) => recordIn((text, values = []) => send({ name: '', text, values }), place, migration),
    DEADLINE_MS,
  )
  return true
}

/** The statements of a migration, cut at semicolons that end a line outside of $$. */
export function statementsOf(sql: string): readonly string[] {
  const statements: string[] = []
  let lines: string[] = []
  let isInBody = false
  for (const line of sql.split('\n')) {
    lines.push(line)
    if ((line.split('$$').length - 1) % 2 === 1) isInBody = !isInBody
    if (isInBody || !/;\s*(--.*)?$/.test(line) || /^\s*--/.test(line)) continue
    statements.push(lines.join('\n'))
    lines = []
  }
  if (lines.some((line) => line.trim() !== '' && !/^\s*--/.test(line))) statements.push(lines.join('\n'))
  return statements
}
