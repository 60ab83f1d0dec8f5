// The servers of a run: PostgreSQL, alone or with a standby, a disk that can be filled, and PgBouncer in front of some of the
// workers. When roles are switched, links and pooler are pointed at the new primary.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FillableDisk } from '../../servers/fillable-disk.js'
import { PgBouncer } from '../../servers/pgbouncer.js'
import { PostgresServer } from '../../servers/postgres.js'
import { PostgresPair } from '../../servers/standby.js'
import type { FaultProxy } from '../proxy.js'
import { type ChaosSettings, has, SWITCHES } from '../settings.js'
import { sleep } from '../sleep.js'
import { onServer } from './on-server.js'

/** How long connections may take to open on a new server. */
const PATIENCE_MS = 30_000
/** How long the demoted server stays up beside the new one, with the connections that have not left it. */
const BESIDE_MS = 14_000
/** How often a standby is built before the run fails. */
const REBUILDS_MAX = 5
/** Transactions that were under way when the server was demoted may end within this long. */
const LAST_WRITES_MS = 1_000

// A standby tries to reach its primary every five seconds; until then no commit is acknowledged.
const SETTINGS = { log_min_messages: 'log', track_commit_timestamp: 'on', wal_retrieve_retry_interval: '500ms' }
// By default a pooler waits 15 s before it retries a server that it could not reach. And PgBouncer 1.18 can keep a server
// connection in the middle of a statement, with its locks, after the client is gone. Only its own time limit ends those.
const POOLER = { server_login_retry: '1', server_connect_timeout: '3', query_wait_timeout: '10', query_timeout: '10' }

export class Machine {
  /** Where the product's tables are, in runs that fill it. */
  readonly disk: FillableDisk | null
  readonly pooler: PgBouncer | null
  readonly #single: PostgresServer | null
  readonly #pair: PostgresPair | null
  /** The time without a complete standby. */
  #repairing: Promise<void> = Promise.resolve()
  #failure: unknown = null

  private constructor(parts: {
    disk: FillableDisk | null
    pooler: PgBouncer | null
    single: PostgresServer | null
    pair: PostgresPair | null
  }) {
    this.disk = parts.disk
    this.pooler = parts.pooler
    this.#single = parts.single
    this.#pair = parts.pair
  }

  static async open(settings: ChaosSettings): Promise<Machine> {
    const disk = has(settings, 'disk full') ? await FillableDisk.open() : null
    const hasClock = has(settings, 'clock ahead') || has(settings, 'clock back')
    const opened: { close(): Promise<void> }[] = disk === null ? [] : [disk]
    try {
      const isPair = SWITCHES.some((kind) => has(settings, kind))
      const pair = isPair ? await PostgresPair.open({ settings: SETTINGS }) : null
      if (pair !== null) opened.push(pair)
      const single = isPair ? null : await PostgresServer.open({ settings: SETTINGS, hasClock })
      if (single !== null) opened.push(single)
      const { port } = single ?? pair!.primary
      const poolSize = { poolSize: 30, settings: POOLER }
      const pooler = settings.pooled > 0 ? await PgBouncer.open({ target: port, ...poolSize }) : null
      if (pair !== null) await setSynchronous(pair.primary, true)
      return new Machine({ disk, pooler, single, pair })
    } catch (error) {
      for (const part of opened.reverse()) await part.close()
      throw error
    }
  }

  /** The server that takes writes. */
  get server(): PostgresServer {
    return this.#single ?? this.#pair!.primary
  }

  /** The primary stops in order, the standby takes over, and the old primary follows it. */
  async switchOver(links: readonly FaultProxy[]): Promise<void> {
    await this.settled()
    await this.#pair!.switchOver()
    await this.#point(links)
    await setSynchronous(this.server, true)
  }

  /** The primary crashes, and the standby takes over. */
  async failOver(links: readonly FaultProxy[]): Promise<void> {
    await this.settled()
    await this.#pair!.failOver()
    await setSynchronous(this.server, false)
    await this.#point(links)
    this.#repairing = this.#repair(0)
  }

  /** The primary is demoted and the standby promoted. Connections to the old primary stay open and can no longer write. */
  async flip(links: readonly FaultProxy[]): Promise<void> {
    await this.settled()
    const pair = this.#pair!
    await pair.refuseWrites()
    await endWrites(pair.primary)
    await pair.caughtUp()
    await pair.promote()
    await setSynchronous(this.server, false)
    await this.#point(links)
    this.#repairing = this.#repair(BESIDE_MS)
  }

  /** The server stops in order and comes back at the same address as a standby without a primary. After a while it is promoted. */
  async demote(ms: number, begin: () => void): Promise<void> {
    await this.settled()
    const { server } = this
    await server.stop('SIGINT')
    await writeFile(join(server.data, 'standby.signal'), '')
    server.change({ primary_conninfo: '' })
    await server.start()
    begin()
    await sleep(ms)
    await onServer(server, (sql) => sql.query(`SELECT pg_promote(true, ${PATIENCE_MS / 1_000})`))
  }

  /** Waits until there is a standby again that has everything. */
  async settled(): Promise<void> {
    await this.#repairing
    if (this.#failure !== null) throw this.#failure
    // A standby that had lost its connection would take over without the commits it missed, and the old primary could not follow it.
    if (this.#pair !== null) await isFollowed(this.#pair.primary)
    await this.#pair?.caughtUp()
  }

  async #repair(besideMs: number): Promise<void> {
    await sleep(besideMs)
    for (let tries = 1; ; tries++) {
      try {
        await this.#pair!.rebuildStandby()
        break
      } catch (error) {
        // Recorded, not thrown: no caller waits for it now.
        this.#failure = error
        if (tries === REBUILDS_MAX) return
        await sleep(1_000)
      }
    }
    this.#failure = null
    await setSynchronous(this.server, true).catch((error) => {
      this.#failure = error
    })
  }

  async #point(links: readonly FaultProxy[]): Promise<void> {
    const { port } = this.server
    if (this.pooler !== null) await this.pooler.retarget(port)
    for (const link of links) link.retarget(port)
  }

  async close(): Promise<void> {
    await this.#repairing
    await this.pooler?.close()
    await this.#pair?.close()
    await this.#single?.close()
    await this.disk?.close()
  }
}

/** With a standby, a commit is acknowledged only when the standby has it. A server that was a primary before would still wait for
 *  the standby that is gone. */
async function setSynchronous(server: PostgresServer, isOn: boolean): Promise<void> {
  await onServer(server, async (sql) => {
    await sql.query(`ALTER SYSTEM SET synchronous_standby_names = '${isOn ? '*' : ''}'`)
    await sql.query('SELECT pg_reload_conf()')
  })
}

/** Waits until a standby is connected: a disconnected one would miss what comes next. */
async function isFollowed(server: PostgresServer): Promise<void> {
  const following = `SELECT FROM pg_stat_replication WHERE state = 'streaming'`
  const deadline = performance.now() + PATIENCE_MS
  while ((await onServer(server, (sql) => sql.query(following)))?.rowCount !== 1) {
    if (performance.now() > deadline) throw new Error(`no standby has connected within ${PATIENCE_MS} ms`)
    await sleep(100)
  }
}

/** A demoted server lets no earlier transaction commit. */
async function endWrites(server: PostgresServer): Promise<void> {
  const writing = `SELECT pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND backend_type = 'client backend'`
  await onServer(server, async (sql) => {
    const deadline = performance.now() + LAST_WRITES_MS
    for (;;) {
      const { rows } = await sql.query(writing)
      if (rows.length === 0) return
      if (performance.now() > deadline)
        await sql.query(`SELECT pg_terminate_backend(pid, 1000) FROM (${writing}) AS late`)
      await sleep(20)
    }
  })
}
