// The PostgreSQL store: yours (postgres://…) or its own (embedded:<folder>).

import { resolve } from 'node:path'
import { checkWhole } from '../../core/check.js'
import { checkDurability, type Durability } from '../../core/durability.js'
import { HoldfastError } from '../../core/errors.js'
import { given } from '../../core/given.js'
import { QUEUES_MAX } from '../../core/operating.js'
import type { Clock } from '../../core/ports.js'
import { serversOf } from '../../core/server-list.js'
import type { Store } from '../../core/store.js'
import { redactUrl } from '../../core/url.js'
import { Access } from './access.js'
import type { AccessOptions, PasswordOption, TlsOptions, UserPool } from './access-options.js'
import { checkMigrated } from './check-migrated.js'
import { Database, type DatabaseOptions } from './database.js'
import type { EmbeddedOptions, EmbeddedServer } from './embedded/server.js'
import type { ExtenderSettings } from './extender.js'
import { type FailoverMemoryOptions, resolveMemory } from './failover-options.js'
import { type ConnectionSettings, Lane } from './lane.js'
import { LaneGroup } from './lane-group.js'
import { migrate } from './migrate.js'
import { checkPool, PooledLane } from './pooled-lane.js'
import { openAmong } from './servers.js'
import type { SessionSettings } from './session.js'
import { SharedLanes } from './shared-lanes.js'
import { checkSchema } from './statement.js'
import type { StatementLane } from './statement-lane.js'
import { composeSafeStore, composeStore, type StoreParts } from './store.js'
import { WakeUps } from './wake.js'

export type { PasswordOption, TlsOptions, UserPool }

export interface PostgresOptions extends AccessOptions {
  /** The schema that holds everything. Default 'holdfast'. Several can live in one database, apart from each other. */
  readonly schema?: string
  /** Whether to make the schema where it is missing, and bring it up to date. Default true. With false both raise `schema_missing`. */
  readonly migrate?: boolean
  /** How long a connection may take to open. Default 10 000. */
  readonly connectMs?: number
  /** How long a query may take before its connection is cut. Default 10 000; upkeep and operators share it. */
  readonly deadlineMs?: number
  /** The most connections that this store has, heartbeat thread included, from 3 to 100. Default null: one for each purpose, up to 17. With a
   *  cap statements share connections, so that a slow one can delay others. */
  readonly connections?: number | null
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

/** A connection that receives wake-ups, one of the heartbeat thread, and one for statements. */
const CONNECTIONS_MIN = 3

/** Connects, brings the schema up to date, and returns the store. `target` is a URL, or a pg.Pool that stays yours. */
export async function postgresStore(target: string | UserPool, options: PostgresOptions = {}): Promise<Store> {
  const { schema, connectMs, deadlineMs, queuesMax, clock } = { ...POSTGRES_DEFAULTS, ...options }
  const { connections = null } = options
  checkSchema(schema)
  checkWhole('queuesMax', queuesMax, 1, 1_000_000)
  if (connections !== null) checkWhole('connections', connections, CONNECTIONS_MIN, 100)
  const bounds = resolveMemory(options.failoverMemory)
  const durability = checkDurability(options.durability ?? 'replicated')
  if (connections !== null && bounds !== null) {
    throw new HoldfastError('unsupported', 'failoverMemory needs a connection for each purpose: leave out connections')
  }
  const url = typeof target === 'string' ? target : null
  if (url === null)
    return overPool(checkPool(target), { ...options, schema, connectMs, deadlineMs, queuesMax, durability })
  const place = await locate(url, { ...options, connectMs })
  const { group } = place
  try {
    const { migrate: mayMigrate = true, onMigrationWait: onWait = () => {} } = options
    const lane = new Lane({ settings: place.settings, purpose: 'prepare the schema', connectMs, group })
    await prepare(lane, { schema, connectMs, mayMigrate, onWait })
  } catch (error) {
    await place.leave()
    throw error
  }
  const { settings, access } = place
  const basics: DatabaseOptions = {
    ...{ settings, schema, clock: clock ?? null, connectMs, deadlineMs, group, durability },
  }
  const shared = connections === null ? null : share(basics, connections - (CONNECTIONS_MIN - 1))
  let hasThread = false
  const parts: StoreParts = {
    db: new Database(shared === null ? basics : { ...basics, laneFor: (...purpose) => shared.lane(...purpose) }),
    wakeUps: new WakeUps({
      ...{ settings, schema, connectMs, group },
      ...(shared === null ? {} : { sender: shared.lane('send wake-ups') }),
    }),
    extender: () => {
      // With a cap there is room for the thread of one worker. Others extend their leases from the main thread.
      if (shared !== null && hasThread) return null
      hasThread = true
      const { ssl, asks } = access
      const known = { ...place.fixed(), ssl, asks, identity: group.identity, schema, connectMs, deadlineMs }
      return {
        kind: 'postgres',
        module: extenderModule(),
        data: known satisfies ExtenderSettings,
        secret: async () => (await access.password()) ?? '',
        onEnd: () => {
          hasThread = false
        },
      }
    },
    leaveServer: () => place.leave(),
    queuesMax,
  }
  // An embedded server has no standby.
  if (bounds === null || url.startsWith('embedded:')) return composeStore(parts)
  return composeSafeStore(parts, { group, bounds })
}

function share(options: DatabaseOptions, count: number): SharedLanes {
  const { settings, connectMs, group, durability } = options
  const lanes = Array.from({ length: count }, () => {
    const purpose = 'share a connection'
    return new Lane({ settings, connectMs, purpose, onlyReads: true, ...given({ group, durability }) })
  })
  return new SharedLanes(lanes)
}

type PoolOptions = PostgresOptions &
  Required<Pick<PostgresOptions, 'schema' | 'connectMs' | 'deadlineMs' | 'queuesMax' | 'durability'>>

const NOT_OVER_POOL = ['hosts', 'ssl', 'password', 'connections', 'failoverMemory', 'embedded'] as const

/** A store whose statements go over the user's pool. It opens no connection and closes none, so it has no heartbeat thread and receives no
 *  wake-ups. */
async function overPool(pool: UserPool, options: PoolOptions): Promise<Store> {
  const { schema, connectMs, deadlineMs, queuesMax, durability, clock = null } = options
  const refused = NOT_OVER_POOL.find((name) => options[name] != null && options[name] !== false)
  if (refused !== undefined) {
    throw new HoldfastError(
      'invalid_option',
      `${refused} has no meaning with a pool, whose connections are yours: leave it out`,
    )
  }
  const laneFor = (purpose: string, session: SessionSettings = {}): StatementLane =>
    new PooledLane({ pool, purpose, connectMs, session, durability })
  const settings = () => Promise.reject(new HoldfastError('unsupported', 'a store over a pool opens no connections'))
  const { migrate: mayMigrate = true, onMigrationWait: onWait = () => {} } = options
  await prepare(laneFor('prepare the schema'), { schema, connectMs, mayMigrate, onWait })
  return composeStore({
    db: new Database({ settings, schema, clock, connectMs, deadlineMs, durability, laneFor }),
    wakeUps: new WakeUps({ settings, schema, connectMs, sender: laneFor('send wake-ups'), receives: false }),
    extender: () => null,
    leaveServer: async () => {},
    queuesMax,
  })
}

/** Modules in a CommonJS bundle have no URL. There the heartbeat thread contains the extender. */
function extenderModule(): string | null {
  const here = import.meta.url as string | undefined
  return here === undefined ? null : new URL('./extender.js', here).href
}

/** Where the server is, now and after it had to be started again. */
interface Place {
  readonly group: LaneGroup
  readonly access: Access
  readonly settings: () => Promise<ConnectionSettings>
  readonly fixed: () => Pick<ExtenderSettings, 'connection' | 'portFile' | 'servers'>
  readonly leave: () => Promise<void>
}

async function locate(url: string, options: PostgresOptions & { readonly connectMs: number }): Promise<Place> {
  const { hosts, embedded, connectMs } = options
  if (!url.startsWith('embedded:')) {
    const servers = checkUrl(url, hosts)
    const access = new Access(given({ ssl: options.ssl, password: options.password }), servers)
    // A thread gets a password that stays the same with the URL, and asks for any other.
    const known =
      typeof options.password === 'string' ? await Promise.all(servers.map((url) => access.urlOf(url))) : servers
    const connection: ConnectionSettings = { connectionString: known[0]! }
    const { group, settings } = openAmong(servers, connectMs, access)
    return {
      group,
      access,
      settings,
      fixed: () => ({ connection, portFile: null, servers: known }),
      leave: async () => {},
    }
  }
  const refused = (['hosts', 'ssl', 'password'] as const).find((name) => options[name] !== undefined)
  if (refused !== undefined) {
    throw new HoldfastError(
      'invalid_option',
      `${refused} is for a URL of postgres://: an embedded store has one server, its own`,
    )
  }
  const { openEmbedded } = await import('./embedded/server.js')
  const folder = resolve(url.slice('embedded:'.length))
  const server: EmbeddedServer = await openEmbedded(folder, embedded)
  return {
    group: new LaneGroup(),
    access: new Access({}, []),
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
  readonly mayMigrate: boolean
  readonly onWait: (text: string) => void
}

/** Brings the schema up to date, or only sees that it is. */
async function prepare(lane: StatementLane, options: PrepareOptions): Promise<void> {
  const { schema, connectMs, mayMigrate, onWait } = options
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
