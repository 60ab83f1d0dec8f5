// Settings that an administrator gives to the workers' role. They apply to new connections, so some old ones are ended. After a
// while they are reverted.

import type { PostgresServer } from '../../servers/postgres.js'
import { sleep } from '../sleep.js'
import { onServer } from './on-server.js'

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

/** Sets it, makes all processes reconnect, and reverts it after `ms`. Connections open at that time keep it. */
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
  // The server may be a standby now.
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
