// The server's own counters: what it wrote, read and vacuumed.

import type pg from 'pg'

export interface ServerCounters {
  readonly commits: number
  readonly blocksRead: number
  readonly deadlocks: number
  readonly walBytes: number
  readonly walRecords: number
  readonly walFullPages: number
  /** How often a commit had to write the log out because its buffers were full. */
  readonly walBuffersFull: number
  /** From pg_stat_io, PostgreSQL 16 and newer; of the log since 18. Null before. */
  readonly walFsyncs: number | null
  readonly tableWrites: number | null
  readonly tableReads: number | null
}

export interface TableChange {
  readonly name: string
  readonly dead: number
  readonly autovacuums: number
  readonly bytes: number
}

const COUNTERS = `
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8 AS commits,
       (SELECT blks_read FROM pg_stat_database WHERE datname = current_database())::float8 AS "blocksRead",
       (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())::float8 AS deadlocks,
       wal_bytes::float8 AS "walBytes", wal_records::float8 AS "walRecords", wal_fpi::float8 AS "walFullPages",
       wal_buffers_full::float8 AS "walBuffersFull"
  FROM pg_stat_wal`

const IO = `
SELECT sum(fsyncs) FILTER (WHERE object = 'wal')::float8 AS "walFsyncs",
       sum(writes) FILTER (WHERE object = 'relation')::float8 AS "tableWrites",
       sum(reads) FILTER (WHERE object = 'relation')::float8 AS "tableReads"
  FROM pg_stat_io`

const TABLES = `
SELECT relname AS name, n_dead_tup::float8 AS dead, autovacuum_count::float8 AS autovacuums,
       pg_total_relation_size(relid)::float8 AS bytes
  FROM pg_stat_user_tables
 WHERE schemaname = 'holdfast'
   AND (n_tup_ins + n_tup_upd + n_tup_del > 0)
 ORDER BY pg_total_relation_size(relid) DESC
 LIMIT 12`

export interface ServerReading {
  readonly counters: ServerCounters
  readonly tables: readonly TableChange[]
}

/** Reads everything once. */
export async function readServer(client: pg.Client): Promise<ServerReading> {
  // Statistics of other connections are cached from the first read of a transaction, so the cache is cleared.
  await client.query('SELECT pg_stat_clear_snapshot()')
  const { rows: hasIo } = await client.query("SELECT to_regclass('pg_catalog.pg_stat_io') IS NOT NULL AS known")
  const { rows: counters } = await client.query(COUNTERS)
  const io = hasIo[0].known
    ? (await client.query(IO)).rows[0]
    : { walFsyncs: null, tableWrites: null, tableReads: null }
  const { rows: tables } = await client.query<TableChange>(TABLES)
  return { counters: { ...counters[0], ...io } as ServerCounters, tables }
}

/** What was counted between two readings. */
export function subtractCounters(before: ServerCounters, after: ServerCounters): ServerCounters {
  const names = Object.keys(after) as (keyof ServerCounters)[]
  return Object.fromEntries(
    names.map((name) => {
      const [from, to] = [before[name], after[name]]
      return [name, from === null || to === null ? null : to - from]
    }),
  ) as unknown as ServerCounters
}
