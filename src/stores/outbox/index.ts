// The outbox of a store on Redis: `connect('redis://…', { outbox: 'postgres://…' })`. Its tables are made by the first who connects.

import { type Duration, durationMs, showMs } from '../../core/duration.js'
import { HoldfastError, invalidOption } from '../../core/errors.js'
import type { Emit, HoldfastEvent } from '../../core/events.js'
import { given } from '../../core/given.js'
import { serversOf } from '../../core/server-list.js'
import type { Store } from '../../core/store.js'
import { redactUrl } from '../../core/url.js'
import { Access } from '../postgres/access.js'
import type { AccessOptions } from '../postgres/access-options.js'
import { Database } from '../postgres/database.js'
import { Lane } from '../postgres/lane.js'
import { migrate, readApplied } from '../postgres/migrate.js'
import { openAmong } from '../postgres/servers.js'
import { checkSchema, statement } from '../postgres/statement.js'
import type { StatementLane } from '../postgres/statement-lane.js'
import type { RedisStore } from '../redis/index.js'
import { Bell } from './bell.js'
import { Completions } from './completions.js'
import { Dispatcher } from './dispatcher.js'
import { composeOutbox } from './store.js'
import { MIGRATIONS_TABLE, OUTBOX_MIGRATIONS } from './tables.js'

interface OutboxOptions extends AccessOptions {
  /** The PostgreSQL schema of its tables, made when it is missing. Default 'holdfast'. One schema belongs to one store on Redis. */
  readonly schema?: string
  /** Whether to make its tables where there are none. Default true. With false that raises `schema_missing`. */
  readonly migrate?: boolean
  /** How long rows stay after they were sent, to be sent again when Redis has lost its last writes. Default '15m'. Must be shorter than
   *  `retention`, or a job that was finished and dropped would come back. */
  readonly keep?: Duration
  /** How long the store keeps finished jobs. */
  readonly retentionMs: number
  /** The PostgreSQL servers of which one is the primary; they replace the host of the URL. */
  readonly hosts?: readonly string[]
  readonly connectMs?: number
  readonly deadlineMs?: number
  /** Called with a message each time a migration waits because others use the tables it changes. */
  readonly onMigrationWait?: (text: string) => void
}

const OUTBOX_KEEP: Duration = '15m'
const OUTBOX_DEFAULTS = { schema: 'holdfast', migrate: true, connectMs: 10_000, deadlineMs: 10_000 } as const

const RING = statement('outbox_ring', `SELECT pg_catalog.pg_notify($1, '')::text`)

/** Opens the outbox in front of a store, which it owns from then on: closing the one closes the other. */
export async function outboxStore(store: RedisStore, url: string, options: OutboxOptions): Promise<Store> {
  const { schema, migrate: mayMigrate, connectMs, deadlineMs } = { ...OUTBOX_DEFAULTS, ...given(options) }
  checkSchema(schema)
  const keepMs = checkKeep(options.keep ?? OUTBOX_KEEP, options.retentionMs)
  const servers = serversOf(url, options.hosts)
  if ('why' in servers) {
    throw new HoldfastError('invalid_url', `the outbox (${redactUrl(url)}) cannot be used: ${servers.why}`)
  }
  const access = new Access(given({ ssl: options.ssl, password: options.password }), servers.urls)
  const { group, settings } = openAmong(servers.urls, connectMs, access)
  const onWait = options.onMigrationWait ?? (() => {})
  const lane = new Lane({ settings, purpose: 'prepare the outbox', connectMs, group })
  await prepare(lane, { schema, mayMigrate, onWait, deadlineMs })
  const db = new Database({ settings, schema, clock: null, connectMs, deadlineMs, group })
  const bell = new Bell({
    channel: `${schema}_outbox`,
    open: () => new Lane({ settings, connectMs, group, purpose: 'hear of the outbox', onlyReads: true }),
    ring: async (channel) => void (await db.send('upkeep', RING, [channel])),
  })
  const events = { emit: (() => {}) as Emit }
  const emit = (event: HoldfastEvent) => events.emit(event)
  return composeOutbox({
    store,
    db,
    bell,
    dispatcher: new Dispatcher({ db, store, keepMs, retentionMs: options.retentionMs, emit }),
    completions: new Completions(db, ({ queue, id }) => store.parts?.of(queue, id) ?? 0),
    reportTo: (to) => {
      events.emit = to
    },
  })
}

function checkKeep(keep: Duration, retentionMs: number): number {
  const keepMs = durationMs(keep, { name: 'outboxKeep', minMs: 1_000 })
  if (keepMs < retentionMs) return keepMs
  throw invalidOption(
    `outboxKeep must be shorter than retention: a job that was finished and dropped would be sent again as a new one; got ${showMs(keepMs)}, and retention is ${showMs(retentionMs)}`,
  )
}

interface Preparation {
  readonly schema: string
  readonly mayMigrate: boolean
  readonly deadlineMs: number
  readonly onWait: (text: string) => void
}

/** Makes the tables or brings them up to date, or only sees that they are there. */
async function prepare(lane: StatementLane, { schema, mayMigrate, onWait, deadlineMs }: Preparation): Promise<void> {
  try {
    const text = "SELECT current_setting('transaction_read_only')"
    const [[isReadOnly] = []] = await lane.query({ name: '', text, values: [] }, deadlineMs)
    if (isReadOnly === 'on') {
      throw new HoldfastError(
        'store_read_only',
        'the PostgreSQL server of the outbox takes no writes: it is a standby or default_transaction_read_only is on; name the primary',
      )
    }
    if (mayMigrate) {
      await migrate(lane, schema, { migrations: OUTBOX_MIGRATIONS, table: MIGRATIONS_TABLE, onWait })
      return
    }
    const run = (sql: string, values: readonly unknown[] = []) =>
      lane.query({ name: '', text: sql, values }, deadlineMs)
    const applied = await readApplied(run, schema, OUTBOX_MIGRATIONS, MIGRATIONS_TABLE)
    if (OUTBOX_MIGRATIONS.every(({ number }) => applied.has(number))) return
    throw new HoldfastError(
      'schema_missing',
      `schema "${schema}" has no tables of an outbox, or older ones: the start of a worker or a server with this outbox makes them`,
      { details: { schema } },
    )
  } finally {
    await lane.close()
  }
}
