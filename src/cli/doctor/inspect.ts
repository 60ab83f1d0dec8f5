// What `doctor` finds out about a store, without changing anything: also of a standby, and of a schema that is behind.

import type { Overview, StoreHealth } from '../../core/operating.js'
import { Database } from '../../stores/postgres/database.js'
import { health } from '../../stores/postgres/health.js'
import { overview } from '../../stores/postgres/overview.js'
import type { ChosenStore, StoreFlags } from '../connection.js'
import { atServer, type MigrationState, readMigrations, type Settings } from '../migrations.js'

/** The facts the checks are made from. */
export interface Facts {
  /** Null of a store that has no schema. */
  readonly migrations: MigrationState | null
  /** Null when the schema is not there yet. */
  readonly health: StoreHealth | null
  /** What holds for the connections jobs are written through: where the server says `off`, Holdfast asks for `on`. */
  readonly synchronousCommit: string | null
  /** How far the store's clock is ahead of this machine's. */
  readonly clockOffsetMs: number
  /** Null when it cannot be read. */
  readonly overview: Overview | null
}

const CONNECT_MS = 10_000
const DEADLINE_MS = 10_000

/** Reads the facts of a PostgreSQL store. */
export async function inspectPostgres(store: ChosenStore, flags: StoreFlags): Promise<Facts> {
  return atServer(store, async (settings) => {
    const migrations = await readMigrations(settings, flags)
    if (migrations.applied.length === 0) {
      return { migrations, health: null, synchronousCommit: null, clockOffsetMs: 0, overview: null }
    }
    const isCurrent = migrations.missing.length === 0
    const seen = await look(settings, migrations.schema, isCurrent)
    const configured = seen.health.postgres!.settings.synchronousCommit
    const synchronousCommit = configured === 'off' ? await askForDurability(settings, migrations.schema) : configured
    return { migrations, ...seen, synchronousCommit }
  })
}

interface Seen {
  readonly health: StoreHealth
  readonly clockOffsetMs: number
  readonly overview: Overview | null
}

async function look(settings: Settings, schema: string, isCurrent: boolean): Promise<Seen> {
  const db = open(settings, schema)
  try {
    // The first call opens the connection, which would count as distance between the clocks.
    await health(db)
    const askedMs = Date.now()
    const answer = await health(db)
    const clockOffsetMs = Math.round(answer.nowMs - askedMs - answer.postgres!.roundTripMs / 2)
    return { health: answer, clockOffsetMs, overview: isCurrent ? await overview(db).catch(() => null) : null }
  } finally {
    await db.close()
  }
}

/** As the store's own connections do; a pooler may not pass it on. */
async function askForDurability(settings: Settings, schema: string): Promise<string> {
  const db = open(async () => ({ ...(await settings()), options: '-c synchronous_commit=on' }), schema)
  try {
    return (await health(db)).postgres!.settings.synchronousCommit
  } finally {
    await db.close()
  }
}

function open(settings: Settings, schema: string): Database {
  return new Database({ settings, schema, clock: null, connectMs: CONNECT_MS, deadlineMs: DEADLINE_MS })
}
