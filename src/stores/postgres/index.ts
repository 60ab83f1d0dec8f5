// The PostgreSQL store: yours (postgres://…) or its own (embedded:<folder>).

import { resolve } from 'node:path'
import { HoldfastError } from '../../core/errors.js'
import type { Clock } from '../../core/ports.js'
import type { Store } from '../../core/store.js'
import { redactUrl } from '../../core/url.js'
import { Database } from './database.js'
import type { EmbeddedOptions, EmbeddedServer } from './embedded/server.js'
import type { ExtenderSettings } from './extender.js'
import { type ConnectionSettings, Lane } from './lane.js'
import { migrate } from './migrate.js'
import { checkSchema } from './statement.js'
import { composeStore } from './store.js'
import { WakeUps } from './wake.js'

export interface PostgresOptions {
  /** The schema that holds everything. Default 'holdfast'. Several can live in one database, apart from each other. */
  readonly schema?: string
  /** How long a connection may take to open. Default 10 000. */
  readonly connectMs?: number
  /** How long a query may take before its connection is cut. Default 10 000; upkeep and operators share it. */
  readonly deadlineMs?: number
  /** How an embedded server is started. */
  readonly embedded?: EmbeddedOptions
  /** A clock that replaces the server's in every statement. For tests: in production time is the server's. */
  readonly clock?: Clock
}

const POSTGRES_DEFAULTS = { schema: 'holdfast', connectMs: 10_000, deadlineMs: 10_000 } as const

/** Connects, brings the schema up to date, and returns the store. */
export async function postgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const { schema, connectMs, deadlineMs, clock } = { ...POSTGRES_DEFAULTS, ...options }
  checkSchema(schema)
  const place = await locate(url, options.embedded)
  let durability = ''
  try {
    durability = await prepare(place, schema, connectMs)
  } catch (error) {
    await place.leave()
    throw error
  }
  const settings = async () => ({ ...(await place.settings()), options: durability })
  return composeStore({
    db: new Database({ settings, schema, clock: clock ?? null, connectMs, deadlineMs }),
    wakeUps: new WakeUps({ settings, schema, connectMs }),
    extender: () => ({
      module: new URL('./extender.js', import.meta.url).href,
      data: { ...place.fixed(durability), schema, connectMs, deadlineMs } satisfies ExtenderSettings,
    }),
    leaveServer: () => place.leave(),
  })
}

/** Where the server is, now and after it had to be started again. */
interface Place {
  readonly settings: () => Promise<ConnectionSettings>
  readonly fixed: (options: string) => Pick<ExtenderSettings, 'connection' | 'portFile'>
  readonly leave: () => Promise<void>
}

async function locate(url: string, embedded: EmbeddedOptions | undefined): Promise<Place> {
  if (!url.startsWith('embedded:')) {
    const connection: ConnectionSettings = { connectionString: checkUrl(url) }
    return {
      settings: async () => connection,
      fixed: (options) => ({ connection: { ...connection, options }, portFile: null }),
      leave: async () => {},
    }
  }
  const { openEmbedded } = await import('./embedded/server.js')
  const folder = resolve(url.slice('embedded:'.length))
  const server: EmbeddedServer = await openEmbedded(folder, embedded)
  return {
    settings: () => server.ensureRunning(),
    fixed: (options) => {
      const connection = { ...server.connection, options }
      const isOnSocket = connection.host.startsWith('/')
      return { connection, portFile: isOnSocket ? null : resolve(folder, 'data', 'postmaster.pid') }
    },
    leave: () => server.close(),
  }
}

function checkUrl(url: string): string {
  if (/^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return url
  throw new HoldfastError(
    'invalid_url',
    `${redactUrl(url)} is not a PostgreSQL URL: write postgres://user:password@host:5432/database or embedded:<folder>`,
  )
}

/** Brings the schema up to date and returns the start-up options that make commits durable, where the server's would not. */
async function prepare(place: Place, schema: string, connectMs: number): Promise<string> {
  const lane = new Lane({ settings: place.settings, purpose: 'prepare the schema', connectMs })
  try {
    const text = "SELECT current_setting('transaction_read_only'), current_setting('synchronous_commit')"
    const [row] = await lane.query({ name: '', text, values: [] }, connectMs)
    if (row?.[0] === 'on') {
      throw new HoldfastError(
        'store_read_only',
        'this PostgreSQL server takes no writes: it is a standby or default_transaction_read_only is on; connect to the primary',
      )
    }
    await migrate(lane, schema)
    // An accepted job must survive a crash. Stronger settings than 'on' are left as they are.
    return row?.[1] === 'off' ? '-c synchronous_commit=on' : ''
  } finally {
    await lane.close()
  }
}
