// Settings that an administrator gives the role the workers connect as. They hold for new connections, so some of the old ones are
// ended; after a while they are taken back.

import type { PostgresServer } from '../servers/postgres.js'
import { onServer, sleep } from './on-server.js'

/** By kind of fault: the setting and its value. */
export const ROLE_SETTINGS = {
  'role: repeatable read': ['default_transaction_isolation', 'repeatable read'],
  'role: serializable': ['default_transaction_isolation', 'serializable'],
  'role: transaction timeout': ['transaction_timeout', '1s'],
  'role: idle in transaction timeout': ['idle_in_transaction_session_timeout', '300ms'],
  'role: statement timeout': ['statement_timeout', '1s'],
  'role: synchronous commit off': ['synchronous_commit', 'off'],
} as const

export type RoleKind = keyof typeof ROLE_SETTINGS

const OURS = `SELECT pid FROM pg_stat_activity
               WHERE (application_name LIKE 'holdfast%' OR application_name = 'chaos effects') AND backend_type = 'client backend'`

const PATIENCE_MS = 60_000

/** Sets it, has everyone connect anew, and takes it back after `ms`: whoever is connected then keeps it. */
export async function setRole(
  server: () => PostgresServer,
  fault: { readonly kind: RoleKind; readonly ms: number },
  begin: () => void,
): Promise<void> {
  const [name, value] = ROLE_SETTINGS[fault.kind]
  await onServer(server, async (sql) => {
    await sql.query(`ALTER ROLE holdfast SET ${name} = '${value}'`)
    await sql.query(`SELECT pg_terminate_backend(pid) FROM (${OURS}) AS ours`)
    begin()
  })
  await sleep(fault.ms)
  const deadline = performance.now() + PATIENCE_MS
  // The server may be a standby at the moment.
  for (;;) {
    try {
      await onServer(server, (sql) => sql.query(`ALTER ROLE holdfast RESET ${name}`))
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(500)
    }
  }
}
