// What the heartbeat thread loads: one connection that extends leases, whatever the main thread is doing.

import { readFile } from 'node:fs/promises'
import type { Lease } from '../../core/job.js'
import type { Extension } from '../../core/job-store.js'
import { Access } from './access.js'
import type { TlsOptions } from './access-options.js'
import { Database } from './database.js'
import { extend } from './extend.js'
import type { ServerIdentity } from './identity.js'
import type { ConnectionSettings } from './lane.js'
import { LaneGroup } from './lane-group.js'
import { openAmong } from './servers.js'

/** What the thread receives. */
export interface ExtenderSettings {
  readonly connection: ConnectionSettings
  /** The lock file of an embedded server on a port, which may be another after a restart; null for any other server. */
  readonly portFile: string | null
  /** The URLs of the servers of which one is the primary; empty for an embedded server. */
  readonly servers: readonly string[]
  readonly ssl: TlsOptions | boolean | null
  /** Whether the main thread is asked for the password of each connection. */
  readonly asks: boolean
  /** The server that the store is on when the thread starts. */
  readonly identity: ServerIdentity | null
  readonly schema: string
  readonly connectMs: number
  readonly deadlineMs: number
}

/** After a failover the main thread restores leases that the new server does not know. For this long none counts as lost here. */
const RESTORED_MS = 10_000

/** Opens the connection when it is first needed. `ask` gets the password from the main thread, where it is asked for. */
export async function openExtender(
  settings: ExtenderSettings,
  ask: () => Promise<string>,
): Promise<{
  extend(leases: readonly Lease[], leaseMs: number): Promise<Extension>
  rest(): void
  close(): Promise<void>
}> {
  const { servers, ssl, asks, schema, connectMs, deadlineMs } = settings
  const access = new Access({ ...(ssl === null ? {} : { ssl }), ...(asks ? { password: ask } : {}) }, servers)
  const place =
    servers.length === 0
      ? { settings: () => locate(settings), group: new LaneGroup() }
      : openAmong(servers, connectMs, access)
  const db = new Database({ ...place, schema, clock: null, connectMs, deadlineMs })
  let believesLostFromMs = 0
  if (settings.identity !== null) place.group.saw(settings.identity)
  place.group.onNewer = () => {
    believesLostFromMs = performance.now() + RESTORED_MS
  }
  return {
    async extend(leases, leaseMs) {
      const extension = await extend(db, leases, leaseMs)
      return performance.now() < believesLostFromMs ? { ...extension, lost: [] } : extension
    },
    rest: () => db.rest([]),
    close: () => db.close(),
  }
}

async function locate({ connection, portFile }: ExtenderSettings): Promise<ConnectionSettings> {
  if (portFile === null) return connection
  const port = Number((await readFile(portFile, 'utf8')).split('\n')[3])
  return { ...connection, port }
}
