// What the heartbeat thread loads: one connection that extends leases, whatever the main thread is doing.

import { readFile } from 'node:fs/promises'
import type { Lease } from '../../core/job.js'
import type { Extension } from '../../core/job-store.js'
import { Database } from './database.js'
import { extend } from './extend.js'
import type { ConnectionSettings } from './lane.js'
import { openAmong } from './servers.js'

/** What the thread receives. */
export interface ExtenderSettings {
  readonly connection: ConnectionSettings
  /** The lock file of an embedded server on a port, which may be another after a restart; null for any other server. */
  readonly portFile: string | null
  /** The URLs of the servers of which one is the primary; empty for an embedded server. */
  readonly servers: readonly string[]
  readonly schema: string
  readonly connectMs: number
  readonly deadlineMs: number
}

/** Opens the connection when it is first needed. */
export async function openExtender(settings: ExtenderSettings): Promise<{
  extend(leases: readonly Lease[], leaseMs: number): Promise<Extension>
  close(): Promise<void>
}> {
  const { servers, schema, connectMs, deadlineMs } = settings
  const place = servers.length === 0 ? { settings: () => locate(settings) } : openAmong(servers, connectMs)
  const db = new Database({ ...place, schema, clock: null, connectMs, deadlineMs })
  return {
    extend: (leases, leaseMs) => extend(db, leases, leaseMs),
    close: () => db.close(),
  }
}

async function locate({ connection, portFile }: ExtenderSettings): Promise<ConnectionSettings> {
  if (portFile === null) return connection
  const port = Number((await readFile(portFile, 'utf8')).split('\n')[3])
  return { ...connection, port }
}
