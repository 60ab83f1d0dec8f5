// The faults of a PostgreSQL server, of two of them, of roles, and those that other programs make.

import type pg from 'pg'
import { say } from '../../say.js'
import type { PostgresServer } from '../../servers/postgres.js'
import type { PlannedFault } from '../plan.js'
import type { FaultProxy } from '../proxy.js'
import type { FaultKind } from '../settings.js'
import { sleep } from '../sleep.js'
import type { Make } from '../stage.js'
import type { Machine } from './machine.js'
import { onServer } from './on-server.js'
import { type RoleKind, setRole } from './roles.js'
import type { Stranger } from './stranger.js'
import { WITNESS } from './watch.js'

/** The tablespace on the disk that can be filled. */
export const FILLABLE = 'fillable'

/** What is broken. */
interface PostgresParts {
  readonly machine: Machine
  /** The server that takes writes now. */
  readonly server: PostgresServer
  readonly stranger: Stranger
  readonly schema: string
  /** The links that lead to the server itself. */
  readonly links: readonly FaultProxy[]
}

type MakeOnServer = (parts: PostgresParts, fault: PlannedFault, begin: () => void) => Promise<void>

const PATIENCE_MS = 30_000
/** A stranger begins between two faults of the server: a busy machine takes its time over each. */
const STRANGER_PATIENCE_MS = 60_000
const CAUGHT_UP_MS = 60_000
const AHEAD_MS = 600_000
const BACK_MS = 300_000
const DISK_FULL = '53100'

/** The makers, for a server that is there once they are called. */
export function postgresMakers(parts: () => PostgresParts): Partial<Record<FaultKind, Make>> {
  return Object.fromEntries(
    Object.entries(MAKERS).map(([kind, make]): [string, Make] => [
      kind,
      (_, fault, begin) => make(parts(), fault, begin),
    ]),
  )
}

const MAKERS: Readonly<Partial<Record<FaultKind, MakeOnServer>>> = {
  'terminate backends': async ({ server }, _, begin) => {
    await onServer(server, async (sql) => {
      await sql.query(`SELECT pg_terminate_backend(pid) FROM (${OURS} ORDER BY random() LIMIT 5) AS chosen`)
      begin()
    })
  },
  'kill backend': async ({ server }, _, begin) => {
    await onServer(server, async (sql) => {
      const { rows } = await sql.query<{ pid: number }>(`${OURS} ORDER BY random() LIMIT 1`)
      if (rows[0] === undefined) return
      process.kill(rows[0].pid, 'SIGKILL')
      begin()
    })
    // It is recovering. With a full disk it would give up.
    await untilUp(server)
  },
  'stop server': async ({ server }, fault, begin) => {
    await server.stop(fault.luck < 0.5 ? 'SIGQUIT' : 'SIGINT')
    begin()
    await sleep(fault.ms)
    await startAgain(server)
  },
  'lose notifications': async ({ server }, _, begin) => {
    await onServer(server, async (sql) => {
      await sql.query(`SELECT pg_terminate_backend(pid) FROM (${OURS} AND query ILIKE 'LISTEN%') AS listening`)
      begin()
    })
  },
  'lock tables': async ({ server, schema }, fault, begin) => {
    await onServer(server, async (sql) => {
      await sql.query('BEGIN')
      await sql.query(`SET LOCAL lock_timeout = ${PATIENCE_MS}`)
      await sql.query(`LOCK TABLE "${schema}".running IN ACCESS EXCLUSIVE MODE`)
      begin()
      await sleep(fault.ms)
      await sql.query('ROLLBACK')
    })
  },
  'disk full': async ({ server, machine: { disk } }, fault, begin) => {
    if (disk === null) throw new Error('this run has no disk that can be filled')
    await disk.fill()
    try {
      await onServer(server, async (sql) => {
        if (await isRefused(sql)) begin()
      })
      await sleep(fault.ms)
    } finally {
      await disk.free()
    }
  },
  // The next jump waits until the schedules have caught up: two jumps together exceed catchUpMax.
  'clock ahead': async ({ server, schema }, _, begin) => {
    await server.clock!.move(AHEAD_MS)
    begin()
    const behind = `SELECT count(*)::int AS n FROM "${schema}".schedules WHERE next_at < clock_timestamp() - interval '60 s'`
    const deadline = performance.now() + CAUGHT_UP_MS
    const isBehind = () => onServer(server, async (sql) => (await sql.query<{ n: number }>(behind)).rows[0]!.n > 0)
    while ((await isBehind()) !== false && performance.now() < deadline) await sleep(200)
  },
  // Set back and restored after a while. Otherwise jobs timed before would be due only minutes later.
  'clock back': async ({ server }, fault, begin) => {
    await server.clock!.move(-BACK_MS)
    begin()
    await sleep(fault.ms)
    await server.clock!.move(BACK_MS)
  },
  'stranger holds key': (parts, { luck }, begin) =>
    untilBegun(begin, (isBegun) => parts.stranger.holdKey(() => parts.server, luck < 0.5, isBegun)),
  'late commits under snapshot': (parts, _, begin) =>
    untilBegun(begin, (isBegun) => parts.stranger.commitLate(() => parts.server, isBegun)),
  'role: repeatable read': strictRole,
  'role: serializable': strictRole,
  'role: transaction timeout': strictRole,
  'role: idle in transaction timeout': strictRole,
  'role: statement timeout': strictRole,
  'role: synchronous commit off': strictRole,
  'demoted for a while': ({ machine }, { ms }, begin) => machine.demote(ms, begin),
  'switch servers': switched((machine, links) => machine.switchOver(links)),
  'flip roles': switched((machine, links) => machine.flip(links)),
  'fail over': switched((machine, links) => machine.failOver(links)),
}

/** Tries again while other faults prevent it. */
async function untilBegun(begin: () => void, make: (begin: () => void) => Promise<void>): Promise<void> {
  const deadline = performance.now() + STRANGER_PATIENCE_MS
  let hasBegun = false
  const note = () => {
    hasBegun = true
    begin()
  }
  while (!hasBegun && performance.now() < deadline) {
    await make(note).catch((error) => say(`chaos: a stranger's transaction failed: ${error}`))
    await sleep(200)
  }
}

function strictRole(parts: PostgresParts, { kind, ms }: PlannedFault, begin: () => void): Promise<void> {
  return setRole(() => parts.server, { kind: kind as RoleKind, ms }, begin)
}

/** Another server takes over: links that do not lead to the pooler are pointed at it. */
function switched(make: (machine: Machine, links: readonly FaultProxy[]) => Promise<void>): MakeOnServer {
  return async ({ machine, links }, _, begin) => {
    await make(machine, links)
    begin()
  }
}

/** Whether the server reports a full disk. */
async function isRefused(sql: pg.Client): Promise<boolean> {
  try {
    await sql.query(`CREATE TABLE ${WITNESS}.filler TABLESPACE ${FILLABLE} AS SELECT generate_series(1, 10000)`)
    await sql.query(`DROP TABLE ${WITNESS}.filler`)
    return false
  } catch (error) {
    return (error as { code?: string }).code === DISK_FULL
  }
}

const OURS = `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' AND backend_type = 'client backend'`

/** Waits until the server answers. A connection may be cut because the server has just noticed the fault. */
async function untilUp(server: PostgresServer): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while ((await onServer(server, (sql) => sql.query('SELECT'))) === null && performance.now() < deadline)
    await sleep(200)
}

/** Right after an immediate stop, resources of its backends may not be free yet. */
async function startAgain(server: PostgresServer): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      await server.start()
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(200)
    }
  }
}
