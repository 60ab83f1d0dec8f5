// Reads the facts for `doctor`. It changes nothing, and works on a standby and with an old schema too.

import type { GroupView } from '../../core/flow/views.js'
import type { AuditEntry, Overview, StoreHealth } from '../../core/operating.js'
import { PAGE_MAX } from '../../core/operator-store.js'
import { audit } from '../../stores/postgres/audit.js'
import { Database } from '../../stores/postgres/database.js'
import { lastRepaired, type RepairedGroups } from '../../stores/postgres/flow-net.js'
import { groups } from '../../stores/postgres/groups.js'
import { health } from '../../stores/postgres/health.js'
import { type LastFailover, lastFailover } from '../../stores/postgres/last-failover.js'
import { limits } from '../../stores/postgres/limits.js'
import { overview } from '../../stores/postgres/overview.js'
import {
  type LateSchedules,
  lateSchedules,
  type SchedulesAhead,
  schedulesAhead,
} from '../../stores/postgres/schedules.js'
import type { ChosenStore, StoreFlags } from '../input/connection.js'
import { atServer, type MigrationState, readMigrations, type Settings } from '../migrations.js'
import type { FlowFacts } from './flow-checks.js'

/** The facts that the checks use. */
export interface Facts {
  /** Null for a store without a schema. */
  readonly migrations: MigrationState | null
  /** Null when the schema does not exist yet. */
  readonly health: StoreHealth | null
  /** How far the store's clock is ahead of this machine's. */
  readonly clockOffsetMs: number
  /** Null when it cannot be read. */
  readonly overview: Overview | null
  /** Null when none is late; undefined when that cannot be read. */
  readonly late?: LateSchedules | null | undefined
  /** Null when none waits because the clock was ahead; undefined when that cannot be read. */
  readonly ahead?: SchedulesAhead | null | undefined
  /** The newest audit entries about rows that should not have been there; undefined when they cannot be read. */
  readonly strays?: readonly AuditEntry[] | undefined
  /** Groups under flow control that were found forgotten. Null when there never were any; undefined when that cannot be read. */
  readonly repaired?: RepairedGroups | null | undefined
  /** Undefined when it cannot be read. */
  readonly flow?: FlowFacts | undefined
  /** The last failover. Null when there was none; undefined when that cannot be read. */
  readonly failover?: LastFailover | null | undefined
}

const CONNECT_MS = 10_000
const DEADLINE_MS = 10_000
const STRAYS_MAX = 100

/** Reads the facts of a PostgreSQL store. */
export async function inspectPostgres(store: ChosenStore, flags: StoreFlags): Promise<Facts> {
  return atServer(store, async (settings) => {
    const migrations = await readMigrations(settings, flags)
    if (migrations.applied.length === 0) {
      return { migrations, health: null, clockOffsetMs: 0, overview: null }
    }
    const isCurrent = migrations.missing.length === 0
    const seen = await read(settings, migrations.schema, isCurrent)
    return { migrations, ...seen }
  })
}

async function read(settings: Settings, schema: string, isCurrent: boolean): Promise<Omit<Facts, 'migrations'>> {
  const db = open(settings, schema)
  try {
    // The first call opens the connection. Its time would count as a difference between the clocks.
    await health(db)
    const askedMs = Date.now()
    const answer = await health(db)
    const clockOffsetMs = Math.round(answer.nowMs - askedMs - answer.postgres!.roundTripMs / 2)
    const seen = isCurrent ? await overview(db).catch(() => null) : null
    return {
      health: answer,
      clockOffsetMs,
      overview: seen,
      late: isCurrent ? await lateSchedules(db).catch(() => undefined) : undefined,
      ahead: isCurrent ? await schedulesAhead(db).catch(() => undefined) : undefined,
      strays: isCurrent ? await strays(db).catch(() => undefined) : undefined,
      repaired: isCurrent ? await lastRepaired(db).catch(() => undefined) : undefined,
      failover: isCurrent ? await lastFailover(db).catch(() => undefined) : undefined,
      flow: seen === null ? undefined : await flow(db, seen).catch(() => undefined),
    }
  } finally {
    await db.close()
  }
}

/** The newest entries, among those that one call reads. */
async function strays(db: Database): Promise<readonly AuditEntry[]> {
  return (await audit(db, { before: null, limit: STRAYS_MAX, action: 'remove_stray' })).entries
}

const QUEUES_MAX = 50

/** Limits, and groups that a dead job stopped: only ordered queues that ask for it have such groups. */
async function flow(db: Database, { queues }: Overview): Promise<FlowFacts> {
  const stopping = queues.filter(({ settings }) => settings.flow?.groups.onDead === 'stop').slice(0, QUEUES_MAX)
  const stopped: (GroupView & { queue: string })[] = []
  for (const { name: queue } of stopping) {
    const page = await groups(db, { queue, prefix: '', after: null, limit: PAGE_MAX, own: true })
    stopped.push(...page.groups.filter(({ stoppedBy }) => stoppedBy !== null).map((group) => ({ ...group, queue })))
  }
  return { limits: await limits(db), stopped }
}

function open(settings: Settings, schema: string): Database {
  return new Database({ settings, schema, clock: null, connectMs: CONNECT_MS, deadlineMs: DEADLINE_MS })
}
