// What the sources in PostgreSQL share: a connection, the move of a batch in one transaction, and the table in which jobs are parked when
// Holdfast is elsewhere. ◄── run.ts · next: pg-boss.ts, graphile-worker.ts

import pg from 'pg'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { Queryable } from '../core/job-store.js'
import { redactUrl } from '../core/url.js'
import type {
  ImportSystem,
  LeftThere,
  Move,
  OldJob,
  OldKind,
  OldPage,
  OldRef,
  OldSchedule,
  Parked,
  Planned,
  Source,
} from './contract.js'

/** The schema of the table of parked jobs. It is made with the first job that is parked, and never when Holdfast is in the same database. */
const PARKED_SCHEMA = 'holdfast_import'
const CONNECT_MS = 10_000
const DEADLINE_MS = 60_000

/** What is different between two queues in PostgreSQL. `Row` is a job's row as `lock` and `look` select it. */
export interface PostgresDialect {
  readonly system: ImportSystem
  /** Selects where a schema of this queue can be told from others, as one boolean. */
  readonly probe: { readonly text: string; readonly what: string }
  /** Jobs of `$1::text[]`, references as `refOf` makes them. With `FOR UPDATE SKIP LOCKED` in place of `:lock`. */
  readonly select: string
  /** Deletes the jobs of the references in `$1`. */
  readonly remove: string
  readOf(row: Record<string, unknown>): OldJob
  /** The text by which a statement finds a job. */
  refOf(ref: Pick<OldRef, 'queue' | 'id'>): string
  list(sql: Sql, kinds: readonly OldKind[], after: string | null): Promise<OldPage>
  left(sql: Sql): Promise<LeftThere>
  schedules(sql: Sql): Promise<readonly OldSchedule[]>
  removeSchedule(sql: Sql, schedule: OldSchedule): Promise<void>
}

/** Runs one statement. */
export type Sql = <Row extends Record<string, unknown>>(
  text: string,
  values?: readonly unknown[],
) => Promise<readonly Row[]>

export interface PostgresSourceOptions {
  readonly url: string
  readonly schema: string
  /** Whether Holdfast is in PostgreSQL at all, so that it may be in the same database. */
  readonly mayShare: boolean
}

/** Opens a queue in PostgreSQL. Raises `store_unavailable` or `access_denied`. */
export async function openPostgresSource(
  dialect: PostgresDialect,
  { url, schema, mayShare }: PostgresSourceOptions,
): Promise<Source> {
  const client = new pg.Client({
    connectionString: url,
    application_name: `holdfast import ${dialect.system}`,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: DEADLINE_MS,
    keepAlive: true,
  })
  // Without a listener an error between two queries would end the process; the next query fails with it.
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (cause) {
    throw unavailable(dialect.system, url, cause)
  }
  return new PostgresSource(dialect, client, schema, mayShare)
}

function unavailable(system: ImportSystem, url: string, cause: unknown): HoldfastError {
  const why = cause instanceof Error ? cause.message : String(cause)
  const isDenied = /^28/.test(String((cause as { code?: unknown })?.code ?? ''))
  return new HoldfastError(
    isDenied ? 'access_denied' : 'store_unavailable',
    `${system} at ${redactUrl(url)} cannot be read: ${why}; check --from`,
    { cause, retryable: false },
  )
}

class PostgresSource implements Source {
  readonly system: ImportSystem
  readonly name: string
  readonly #dialect: PostgresDialect
  readonly #client: pg.Client
  readonly #schema: string
  readonly #sql: Sql
  /** Whether Holdfast is in this database; null until the first batch has shown it. */
  #isShared: boolean | null
  #hasParked = false

  constructor(dialect: PostgresDialect, client: pg.Client, schema: string, mayShare: boolean) {
    this.system = dialect.system
    this.name = `${dialect.system}:${schema}`
    this.#dialect = dialect
    this.#client = client
    this.#schema = schema
    this.#isShared = mayShare ? null : false
    this.#sql = async <Row>(text: string, values: readonly unknown[] = []) => {
      const { rows } = await client.query(text.replaceAll(':schema', pg.escapeIdentifier(schema)), [...values])
      return rows as Row[]
    }
  }

  async check(): Promise<void> {
    const { probe, system } = this.#dialect
    const [row] = await this.#sql<{ found: boolean }>(probe.text, [this.#schema])
    if (row!.found) return
    throw new HoldfastError(
      'invalid_option',
      `schema "${this.#schema}" has no ${system}: ${probe.what}; name its schema with --from-schema, and its database with --from`,
    )
  }

  left(): Promise<LeftThere> {
    return this.#dialect.left(this.#sql)
  }

  list(kinds: readonly OldKind[], after: string | null): Promise<OldPage> {
    return this.#dialect.list(this.#sql, kinds, after)
  }

  async look(refs: readonly OldRef[]): Promise<readonly OldJob[]> {
    return this.#inOrder(refs, await this.#sql(this.#dialect.select.replace(':lock', ''), [this.#refs(refs)]))
  }

  async move(move: Move): Promise<void> {
    if (this.#isShared !== false) {
      const isMoved = await this.#moveTogether(move)
      if (isMoved) return
    }
    const planned = await this.#park(move)
    if (planned.length === 0) return
    await move.write(planned)
    await this.confirm(planned.map(({ old }) => old))
  }

  /** Taken there and written here in one transaction. False when Holdfast is in another database; nothing has changed then. */
  async #moveTogether({ refs, takenAtMs, plan, write }: Move): Promise<boolean> {
    await this.#sql('BEGIN')
    try {
      const planned = await this.#lock(refs, (old) => plan(old, takenAtMs))
      if (planned.length > 0) {
        await write(planned, this.#client as Queryable)
        await this.#sql(this.#dialect.remove, [this.#refs(planned.map(({ old }) => old))])
      }
      await this.#sql('COMMIT')
      if (planned.length > 0) this.#isShared = true
      return true
    } catch (error) {
      await this.#sql('ROLLBACK').catch(() => {})
      if (this.#isShared === true || !isElsewhere(error)) throw error
      this.#isShared = false
      return false
    }
  }

  /** Taken there, and kept in a table of ours until it is written here. */
  async #park({ refs, takenAtMs, plan }: Move): Promise<readonly Planned[]> {
    await this.#makeParked()
    await this.#sql('BEGIN')
    try {
      const planned = await this.#lock(refs, (old) => plan(old, takenAtMs))
      if (planned.length > 0) {
        const olds = planned.map(({ old }) => old)
        await this.#sql(PARK, [this.name, olds.map(parkedKey), olds.map((old) => JSON.stringify(old)), takenAtMs])
        await this.#sql(this.#dialect.remove, [this.#refs(olds)])
      }
      await this.#sql('COMMIT')
      return planned
    } catch (error) {
      await this.#sql('ROLLBACK').catch(() => {})
      throw error
    }
  }

  async #lock(refs: readonly OldRef[], plan: (old: OldJob) => Planned | null): Promise<readonly Planned[]> {
    const rows = await this.#sql(this.#dialect.select.replace(':lock', 'FOR UPDATE OF job SKIP LOCKED'), [
      this.#refs(refs),
    ])
    return this.#inOrder(refs, rows).flatMap((old) => plan(old) ?? [])
  }

  #refs(refs: readonly Pick<OldRef, 'queue' | 'id'>[]): readonly string[] {
    return refs.map((ref) => this.#dialect.refOf(ref))
  }

  /** In the order of the references: that is the order in which they are accepted here. */
  #inOrder(refs: readonly OldRef[], rows: readonly Record<string, unknown>[]): readonly OldJob[] {
    const olds = rows.map((row) => this.#dialect.readOf(row))
    const byRef = new Map(olds.map((old) => [this.#dialect.refOf(old), old]))
    return refs.flatMap((ref) => byRef.get(this.#dialect.refOf(ref)) ?? [])
  }

  async parked(limit: number): Promise<readonly Parked[]> {
    if (!this.#hasParked && !(await this.#isParkedThere())) return []
    const rows = await this.#sql<{ job: OldJob; taken_at_ms: string }>(PARKED, [this.name, limit])
    return rows.map(({ job, taken_at_ms }) => ({ old: job, takenAtMs: Number(taken_at_ms) }))
  }

  async confirm(olds: readonly OldJob[]): Promise<void> {
    await this.#sql(CONFIRM, [this.name, olds.map(parkedKey)])
  }

  async #isParkedThere(): Promise<boolean> {
    const [row] = await this.#sql<{ found: boolean }>(
      `SELECT to_regclass('${PARKED_SCHEMA}.parked') IS NOT NULL AS found`,
    )
    return row!.found
  }

  async #makeParked(): Promise<void> {
    if (this.#hasParked) return
    if (!(await this.#isParkedThere())) {
      try {
        await this.#sql(MAKE_PARKED)
      } catch (cause) {
        throw new HoldfastError(
          'access_denied',
          `${this.#dialect.system} is in another database than Holdfast, so its jobs are kept in table ${PARKED_SCHEMA}.parked there until they are written here, and that table cannot be made: ${(cause as Error).message}; let the role of --from create it (GRANT CREATE ON DATABASE), nothing was taken`,
          { cause },
        )
      }
    }
    this.#hasParked = true
  }

  schedules(): Promise<readonly OldSchedule[]> {
    return this.#dialect.schedules(this.#sql)
  }

  removeSchedule(schedule: OldSchedule): Promise<void> {
    return this.#dialect.removeSchedule(this.#sql, schedule)
  }

  async close(): Promise<void> {
    await this.#client.end()
  }
}

const MAKE_PARKED = `
CREATE SCHEMA IF NOT EXISTS ${PARKED_SCHEMA};
CREATE TABLE IF NOT EXISTS ${PARKED_SCHEMA}.parked (
  source      text   NOT NULL,
  key         text   NOT NULL,
  job         json   NOT NULL,
  taken_at_ms bigint NOT NULL,
  CONSTRAINT parked_once PRIMARY KEY (source, key)
)`

const PARK = `
INSERT INTO ${PARKED_SCHEMA}.parked (source, key, job, taken_at_ms)
SELECT $1, key, job::json, $4::float8::bigint
  FROM unnest($2::text[], $3::text[]) AS taken (key, job)`

const PARKED = `SELECT job, taken_at_ms::text FROM ${PARKED_SCHEMA}.parked WHERE source = $1 ORDER BY taken_at_ms, key LIMIT $2`

const CONFIRM = `DELETE FROM ${PARKED_SCHEMA}.parked WHERE source = $1 AND key = ANY ($2::text[])`

function parkedKey({ queue, key }: OldJob): string {
  return `${queue} ${key}`
}

/** What the store says about a transaction in another database, and a server about a role that may not write there. */
function isElsewhere(error: unknown): boolean {
  const isRefused = isHoldfastError(error, 'invalid_option') && error.message.startsWith('tx ')
  return isRefused || isHoldfastError(error, 'access_denied') || (error as { code?: unknown })?.code === '42501'
}
