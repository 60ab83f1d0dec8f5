// health: what the server reports about itself, for its operators.

import type { PostgresHealth, StoreHealth, TableHealth } from '../../core/operating.js'
import { postponedDays } from './close-days.js'
import type { Database, Send } from './database.js'
import { horizon } from './horizon.js'
import { readDate, statement } from './statement.js'

const SERVER = statement(
  'health_server',
  `
SELECT (extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())) * 1000)::float8,
       current_setting('server_version'), current_setting('server_version_num'), current_setting('synchronous_commit'),
       current_setting('fsync'), current_setting('full_page_writes'), current_setting('autovacuum'),
       current_setting('max_connections'), current_setting('default_transaction_read_only'),
       pg_is_in_recovery(), pg_database_size(current_database()), pg_backend_pid(),
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'),
       (SELECT max(number) FROM :schema.migrations),
       (SELECT substr(setting, 19) FROM pg_catalog.pg_roles, unnest(rolconfig) AS setting
         WHERE rolname = current_user AND setting LIKE 'statement\\_timeout=%' LIMIT 1),
       (SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'synchronous_commit'),
       (SELECT count(*) FROM pg_catalog.pg_stat_replication), current_setting('synchronous_standby_names')`,
)

// A query of its own: behind a pooler that changes the server connection after each transaction, the process id differs from the first.
const AGAIN = statement('health_again', 'SELECT pg_backend_pid()')

const TABLES = statement(
  'health_tables',
  `
SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid),
       (extract(epoch FROM greatest(last_vacuum, last_autovacuum)) * 1000)::float8
  FROM pg_catalog.pg_stat_all_tables
 WHERE schemaname = ':schema_text'
   AND relname IN ('ready', 'running', 'scheduled', 'blocked', 'dead', 'keys')
 ORDER BY relname`,
)

export async function health(db: Database): Promise<StoreHealth> {
  const send: Send = (sql, values) => db.send('look', sql, values)
  const startMs = performance.now()
  const [server = []] = await send(SERVER, [db.now()])
  const roundTripMs = performance.now() - startMs
  const [nowMs, version, versionNumber, synchronousCommit, fsync, fullPageWrites, autovacuum, maxConnections, ...more] =
    server
  const [
    readOnlyByDefault,
    inRecovery,
    databaseBytes,
    pid,
    connections,
    schemaVersion,
    statementTimeout,
    ofRole,
    ...follow
  ] = more
  const [standbys, synchronous] = follow
  const [[laterPid] = []] = await send(AGAIN, [])
  const tables = await send(TABLES, [])
  const held = await horizon(db)
  const postponed = await postponedDays(db, 'look')
  const postgres: PostgresHealth = {
    versionNumber: Number(versionNumber),
    schemaVersion: Number(schemaVersion ?? 0),
    schema: db.schema,
    settings: {
      synchronousCommit: synchronousCommit!,
      synchronousCommitOfRole: ofRole!,
      fsync: fsync === 'on',
      fullPageWrites: fullPageWrites === 'on',
      autovacuum: autovacuum === 'on',
      maxConnections: Number(maxConnections),
      statementTimeout: statementTimeout ?? 'none',
      readOnlyByDefault: readOnlyByDefault === 'on',
    },
    durability: db.durability,
    standbys: { connected: Number(standbys), synchronous: synchronous ?? '' },
    connections: Number(connections),
    inRecovery: inRecovery === 't',
    databaseBytes: Number(databaseBytes),
    roundTripMs,
    hasPooler: laterPid !== pid,
    postponedDays: postponed,
    ...(held === null ? {} : { horizon: held }),
    tables: tables.map(
      ([name, live, dead, bytes, vacuumed]): TableHealth => ({
        name: name!,
        liveRows: Number(live),
        deadRows: Number(dead),
        bytes: Number(bytes),
        lastVacuumAt: readDate(vacuumed),
      }),
    ),
  }
  return {
    kind: 'postgres',
    version: `PostgreSQL ${version}`,
    isDurable: postgres.settings.fsync && postgres.settings.synchronousCommit !== 'off',
    nowMs: Math.floor(Number(nowMs)),
    postgres,
  }
}
