// Where a store's lanes connect to.

import type { ConnectionSettings } from './lane.js'
import { LaneGroup } from './lane-group.js'
import { PrimaryFinder } from './primary-finder.js'

/** The lanes' group, and where they connect to: to the one server, or to the primary among several. */
export function openAmong(
  servers: readonly string[],
  connectMs: number,
): { readonly group: LaneGroup; readonly settings: () => Promise<ConnectionSettings> } {
  if (servers.length === 1) {
    const connection: ConnectionSettings = { connectionString: servers[0]! }
    return { group: new LaneGroup(), settings: async () => connection }
  }
  const finder = new PrimaryFinder({ urls: servers, connectMs, isStale: (found) => group.isStale(found) })
  const group = new LaneGroup({ onDoubt: () => finder.doubt() })
  return { group, settings: () => finder.settings() }
}
