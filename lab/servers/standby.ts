// A primary and its standby: two real servers, the second a copy of the first that follows it by streaming replication. Roles can
// be switched in order, or taken over after a crash.

import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { PostgresServer, type ServerOptions } from './postgres.js'
import { familyOf } from './process-family.js'

const WAIT_MS = 90_000
const RECOVERY_CONFLICT = '40001'

export class PostgresPair {
  #primary: PostgresServer
  #standby: PostgresServer

  private constructor(primary: PostgresServer, standby: PostgresServer) {
    this.#primary = primary
    this.#standby = standby
  }

  /** Starts both; the standby has everything the primary has. Passwords are not supported. */
  static async open(options: Omit<ServerOptions, 'password' | 'hasClock'> = {}): Promise<PostgresPair> {
    // Enough of the log is kept for a standby that was away for a while.
    const settings = { wal_keep_size: '1GB', ...options.settings }
    const primary = await PostgresServer.open({ ...options, settings })
    try {
      const standby = await PostgresServer.besides(primary, (data) => copyData(primary, data))
      await follow(standby, primary)
      const pair = new PostgresPair(primary, standby)
      await pair.caughtUp()
      return pair
    } catch (error) {
      await primary.close()
      throw error
    }
  }

  /** The server that takes writes. It changes when the roles are switched. */
  get primary(): PostgresServer {
    return this.#primary
  }

  /** The server that follows. */
  get standby(): PostgresServer {
    return this.#standby
  }

  /** Resolves when the standby has replayed everything the primary had written when this was called. */
  async caughtUp(): Promise<void> {
    const [[written]] = (await ask(this.#primary, 'SELECT pg_current_wal_flush_lsn()')) as [[string]]
    const replayed = `SELECT pg_last_wal_replay_lsn() >= '${written}'::pg_lsn`
    await until(async () => (await ask(this.#standby, replayed))[0]?.[0] === true, 'the standby did not catch up')
  }

  /**
   * Switches the roles as an administrator does: the primary stops in order and so loses nothing, the standby is promoted, and the
   * old primary comes back as its standby. Connections to the old primary break; those to the old standby stay.
   */
  async switchOver(): Promise<void> {
    const [old, next] = [this.#primary, this.#standby]
    // An orderly stop waits until the standby has received everything.
    await old.stop('SIGINT')
    await this.promote()
    await follow(old, next)
  }

  /** Kills the primary and promotes the standby. What the standby had not received is lost. */
  async failOver(): Promise<void> {
    await this.#primary.stop('SIGKILL')
    await this.promote()
  }

  /** Lets the standby receive nothing more: what is written from now on is lost by a failover. Undone by `rebuildStandby`. */
  async cutOff(): Promise<void> {
    const primary = this.#primary
    // The word `all` does not mean replication there.
    await writeFile(join(primary.data, 'pg_hba.conf'), 'host all all 127.0.0.1/32 trust\n')
    await ask(primary, 'SELECT pg_reload_conf()')
    const end = 'SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_replication'
    await until(async () => (await ask(primary, end))[0]?.[0] === 0, 'the standby was not cut off')
    const isGone = async () =>
      (await ask(this.#standby, 'SELECT count(*)::int FROM pg_stat_wal_receiver'))[0]?.[0] === 0
    await until(isGone, 'the standby still receives')
  }

  /** Promotes the standby, whatever the primary does. Its connections stay. From here on it is `primary`. */
  async promote(): Promise<void> {
    const next = this.#standby
    // Not `pg_promote(true)`: a query that waits until the log is replayed can be cancelled by what is replayed.
    await until(
      async () => (await ask(next, 'SELECT pg_promote(false)'))[0]?.[0] === true,
      'the standby was not asked to promote',
    )
    await until(
      async () => (await ask(next, 'SELECT pg_is_in_recovery()'))[0]?.[0] === false,
      'the standby was not promoted',
    )
    this.#standby = this.#primary
    this.#primary = next
  }

  /**
   * Takes away the primary's right to write, without ending it: connections stay open, and new transactions on them fail with 25006.
   * Undone by `allowWrites`.
   */
  async refuseWrites(server: PostgresServer = this.#primary): Promise<void> {
    await setReadOnly(server, 'on')
  }

  async allowWrites(server: PostgresServer = this.#primary): Promise<void> {
    await setReadOnly(server, 'off')
  }

  /** Stops every process of the primary where it is: it answers nothing, and no connection breaks. Returns what lets it go on. */
  async freeze(): Promise<() => void> {
    const parent = this.#primary.pid
    const signal = (pids: readonly number[], name: 'SIGSTOP' | 'SIGCONT') => {
      for (const pid of pids) {
        try {
          process.kill(pid, name)
        } catch {
          // It has ended meanwhile.
        }
      }
    }
    // The one that starts the others first: a process of its that began while they are listed would go on, and take writes.
    signal([parent], 'SIGSTOP')
    const pids = await familyOf(parent)
    signal(pids, 'SIGSTOP')
    return () => signal(pids, 'SIGCONT')
  }

  /** Makes the server that is `standby` now a fresh copy of the primary that follows it, whatever it was before. */
  async rebuildStandby(): Promise<void> {
    const [primary, standby] = [this.#primary, this.#standby]
    await standby.stop('SIGKILL')
    await rm(standby.data, { recursive: true, force: true })
    await writeFile(join(primary.data, 'pg_hba.conf'), 'host all,replication all 127.0.0.1/32 trust\n')
    await ask(primary, 'SELECT pg_reload_conf()')
    await copyData(primary, standby.data)
    await follow(standby, primary)
    await this.caughtUp()
  }

  async close(): Promise<void> {
    await Promise.all([this.#primary.close(), this.#standby.close()])
  }
}

/** Copies the files of a running server between the two calls that make such a copy consistent. */
async function copyData(from: PostgresServer, data: string): Promise<void> {
  const client = new pg.Client({ connectionString: from.url })
  await client.connect()
  try {
    await client.query("SELECT pg_backup_start('copy', true)")
    // Files that go away meanwhile are not needed.
    await from.run(['sh', '-c', 'cp -R "$0" "$1" 2>&1 | grep -v "No such file" >&2; true', from.data, data])
    const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(false)')
    await from.run(['rm', '-f', join(data, 'postmaster.pid'), join(data, 'postmaster.opts')])
    await writeFile(join(data, 'backup_label'), rows[0].labelfile)
  } finally {
    await client.end()
  }
  // Files that changed during the copy are repaired from the primary's log.
  const log = join(data, 'pg_wal')
  const files = (await readdir(log, { withFileTypes: true })).filter((entry) => entry.isFile())
  await Promise.all(files.map(({ name }) => rm(join(log, name))))
}

async function follow(server: PostgresServer, primary: PostgresServer): Promise<void> {
  await writeFile(join(server.data, 'standby.signal'), '')
  server.change({ primary_conninfo: `host=127.0.0.1 port=${primary.port} user=holdfast` })
  await server.start()
}

async function setReadOnly(server: PostgresServer, value: 'on' | 'off'): Promise<void> {
  const client = new pg.Client({ connectionString: server.url, options: '-c default_transaction_read_only=off' })
  await client.connect()
  try {
    await client.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`)
    await client.query('SELECT pg_reload_conf()')
  } finally {
    await client.end()
  }
  const isSet = async () => (await ask(server, 'SHOW default_transaction_read_only'))[0]?.[0] === value
  await until(isSet, `default_transaction_read_only did not become ${value}`)
}

async function ask(server: PostgresServer, text: string): Promise<unknown[][]> {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows
  } finally {
    await client.end()
  }
}

/** A query that a standby cancels, because it is in the way of what is replayed, has no answer yet and is sent again. */
async function until(isSo: () => Promise<boolean>, otherwise: string): Promise<void> {
  const endsAt = performance.now() + WAIT_MS
  const isSoNow = () =>
    isSo().catch((error) => {
      if (error.code === RECOVERY_CONFLICT) return false
      throw error
    })
  while (!(await isSoNow())) {
    if (performance.now() > endsAt) throw new Error(`${otherwise} within ${WAIT_MS} ms`)
    await sleep(20)
  }
}
