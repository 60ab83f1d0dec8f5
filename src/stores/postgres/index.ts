// The PostgreSQL store: yours (postgres://…) or its own (embedded:<folder>).

import { resolve } from 'node:path'
import { checkWhole } from '../../core/check.js'
import { checkDurability, type Durability } from '../../core/durability.js'
import { HoldfastError } from '../../core/errors.js'
import { QUEUES_MAX } from '../../core/operating.js'
import type { Clock } from '../../core/ports.js'
import { serversOf } from '../../core/server-list.js'
import type { Store } from '../../core/store.js'
import { redactUrl } from '../../core/url.js'
import { checkMigrated } from './check-migrated.js'
import { Database } from './database.js'
import type { EmbeddedOptions, EmbeddedServer } from './embedded/server.js'
import type { ExtenderSettings } from './extender.js'
import { type FailoverMemoryOptions, resolveMemory } from './failover-options.js'
import { type ConnectionSettings, Lane } from './lane.js'
import { LaneGroup } from './lane-group.js'
import { migrate } from './migrate.js'
import { openAmong } from './servers.js'
import { checkSchema } from './statement.js'
import { composeSafeStore, composeStore, type StoreParts } from './store.js'
import { WakeUps } from './wake.js'

export interface PostgresOptions {
  /** The schema that holds everything. Default 'holdfast'. Several can live in one database, apart from each other. */
  readonly schema?: string
  /** Whether to make the schema where it is missing, and bring it up to date. Default true. With false both raise `schema_missing`. */
  readonly migrate?: boolean
  /** How long a connection may take to open. Default 10 000. */
  readonly connectMs?: number
  /** How long a query may take before its connection is cut. Default 10 000; upkeep and operators share it. */
  readonly deadlineMs?: number
  /** The most queues, from 1 to 1,000,000. Default 10 000. Enqueueing to one more raises `too_many_queues`. */
  readonly queuesMax?: number
  /** The servers of which one is the primary, as 'host:port'; they replace the host of the URL. Default: those of the URL. */
  readonly hosts?: readonly string[]
  /** What a commit waits for: 'local', this server's disk; 'replicated', also the disks of the synchronous standbys, if there are any; or
   *  'applied', until jobs can be read there. Default 'replicated'. */
  readonly durability?: Durability
  /** How much is remembered of what was accepted, so that it can be said again after a failover. Default false, nothing; true is 60 s, 64 MiB,
   *  500 000 jobs. docs/failover.md says what it does not hold for yet. */
  readonly failoverMemory?: FailoverMemoryOptions | boolean
  /** How an embedded server is started. */
  readonly embedded?: EmbeddedOptions
  /** Called with a message each time a migration waits because others use the tables it changes. */
  readonly onMigrationWait?: (text: string) => void
  /** A clock that replaces the server's in every statement. For tests: in production time is the server's. */
  readonly clock?: Clock
}

const POSTGRES_DEFAULTS = { schema: 'holdfast', connectMs: 10_000, deadlineMs: 10_000, queuesMax: QUEUES_MAX } as const

/** Connects, brings the schema up to date, and returns the store. */
export async function postgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const { schema, connectMs, deadlineMs, queuesMax, clock } = { ...POSTGRES_DEFAULTS, ...options }
  checkSchema(schema)
  checkWhole('queuesMax', queuesMax, 1, 1_000_000)
  const bounds = resolveMemory(options.failoverMemory)
  const durability = checkDurability(options.durability ?? 'replicated')
  const place = await locate(url, { ...options, connectMs })
  const { group } = place
  try {
    const { migrate: mayMigrate = true, onMigrationWait: onWait = () => {} } = options
    await prepare(place, { schema, connectMs, group, mayMigrate, onWait })
  } catch (error) {
    await place.leave()
    throw error
  }
  const { settings } = place
  const parts: StoreParts = {
    db: new Database({ settings, schema, clock: clock ?? null, connectMs, deadlineMs, group, durability }),
    wakeUps: new WakeUps({ settings, schema, connectMs, group }),
    extender: () => ({
      kind: 'postgres',
      module: extenderModule(),
      data: { ...place.fixed(), identity: group.identity, schema, connectMs, deadlineMs } satisfies ExtenderSettings,
    }),
    leaveServer: () => place.leave(),
    queuesMax,
  }
  // An embedded server has no standby.
  if (bounds === null || url.startsWith('embedded:')) return composeStore(parts)
  return composeSafeStore(parts, { group, bounds })
}

/** Modules in a CommonJS bundle have no URL. There the heartbeat thread contains the extender. */
function extenderModule(): string | null {
  const here = import.meta.url as string | undefined
  return here === undefined ? null : new URL('./extender.js', here).href
}

/** Where the server is, now and after it had to be started again. */
interface Place {
  readonly group: LaneGroup
  readonly settings: () => Promise<ConnectionSettings>
  readonly fixed: () => Pick<ExtenderSettings, 'connection' | 'portFile' | 'servers'>
  readonly leave: () => Promise<void>
}

async function locate(url: string, options: PostgresOptions & { readonly connectMs: number }): Promise<Place> {
  const { hosts, embedded, connectMs } = options
  if (!url.startsWith('embedded:')) {
    const servers = checkUrl(url, hosts)
    const connection: ConnectionSettings = { connectionString: servers[0]! }
    const { group, settings } = openAmong(servers, connectMs)
    return { group, settings, fixed: () => ({ connection, portFile: null, servers }), leave: async () => {} }
  }
  if (hosts !== undefined) {
    throw new HoldfastError(
      'invalid_option',
      'hosts is for a URL of postgres://: an embedded store has one server, its own',
    )
  }
  const { openEmbedded } = await import('./embedded/server.js')
  const folder = resolve(url.slice('embedded:'.length))
  const server: EmbeddedServer = await openEmbedded(folder, embedded)
  return {
    group: new LaneGroup(),
    settings: () => server.ensureRunning(),
    fixed: () => {
      const { connection } = server
      const isOnSocket = connection.host.startsWith('/')
      return { connection, portFile: isOnSocket ? null : resolve(folder, 'data', 'postmaster.pid'), servers: [] }
    },
    leave: () => server.close(),
  }
}

function checkUrl(url: string, hosts: readonly string[] | undefined): readonly string[] {
  const servers = serversOf(url, hosts)
  if ('urls' in servers) return servers.urls
  throw new HoldfastError(
    'invalid_url',
    `${redactUrl(url)} is not a PostgreSQL URL: ${servers.why}; write postgres://user:password@host:5432/database or embedded:<folder>`,
  )
}

interface PrepareOptions {
  readonly schema: string
  readonly connectMs: number
  readonly group: LaneGroup
  readonly mayMigrate: boolean
  readonly onWait: (text: string) => void
}

/** Brings the schema up to date, or only sees that it is. */
async function prepare(place: Place, options: PrepareOptions): Promise<void> {
  const { schema, connectMs, group, mayMigrate, onWait } = options
  const lane = new Lane({ settings: place.settings, purpose: 'prepare the schema', connectMs, group })
  try {
    const text = "SELECT current_setting('transaction_read_only')"
    // In a transaction, so that a pooler that allows no transactions is noticed here, and not at the first job that needs one.
    const [[isReadOnly] = []] = await lane.transaction((send) => send({ name: '', text, values: [] }), connectMs)
    if (isReadOnly === 'on') {
      throw new HoldfastError(
        'store_read_only',
        'this PostgreSQL server takes no writes: it is a standby or default_transaction_read_only is on; connect to the primary',
      )
    }
    if (mayMigrate) await migrate(lane, schema, { onWait })
    else await checkMigrated(lane, schema)
  } finally {
    await lane.close()
  }
}
