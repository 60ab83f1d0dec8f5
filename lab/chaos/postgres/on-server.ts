// The lab's own connection, past all links and poolers, independent of the current settings of its role.

import pg from 'pg'
import type { PostgresServer } from '../../servers/postgres.js'
import { sleep } from '../sleep.js'

const PATIENCE_MS = 30_000
const OWN_SETTINGS = [
  ...['statement_timeout=0', 'transaction_timeout=0', 'idle_in_transaction_session_timeout=0'],
  ...['default_transaction_isolation=read\\ committed', 'default_transaction_read_only=off', 'synchronous_commit=on'],
]

/** A client that is not connected yet. Its end by a fault is not an error. */
function ownClient(server: PostgresServer): pg.Client {
  const options = OWN_SETTINGS.map((setting) => `-c ${setting}`).join(' ')
  const place = { connectionString: server.url, connectionTimeoutMillis: 3_000, application_name: 'chaos' }
  return new pg.Client({ ...place, options })
}

/** Runs on its own connection past all links, once the server accepts one. Its end by the fault itself is not an error. */
export async function onServer<T>(
  server: PostgresServer | (() => PostgresServer),
  work: (sql: pg.Client) => Promise<T>,
): Promise<T | null> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    // Another server may have taken over since.
    const sql = ownClient(typeof server === 'function' ? server() : server)
    let isOpen = false
    let isCut = false
    sql.on('error', () => {
      isCut = true
    })
    try {
      await sql.connect()
      isOpen = true
      return await work(sql)
    } catch (error) {
      if (isOpen && isCut) return null
      if (isOpen || performance.now() > deadline) throw error
      await sleep(200)
    } finally {
      await sql.end().catch(() => {})
    }
  }
}
