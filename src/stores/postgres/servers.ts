// Where a store's lanes connect to.

import { Access } from './access.js'
import type { ConnectionSettings } from './lane.js'
import { LaneGroup } from './lane-group.js'
import { PrimaryFinder } from './primary-finder.js'

/** The lanes' group, and where they connect to: to the one server, or to the primary among several. */
export function openAmong(
  servers: readonly string[],
  connectMs: number,
  access: Access = new Access({}, servers),
): { readonly group: LaneGroup; readonly settings: () => Promise<ConnectionSettings> } {
  if (servers.length === 1) {
    return { group: new LaneGroup(), settings: () => access.settings(servers[0]!) }
  }
  const finder = new PrimaryFinder({ urls: servers, access, connectMs, isStale: (found) => group.isStale(found) })
  const group = new LaneGroup({ onDoubt: () => finder.doubt() })
  return { group, settings: () => finder.settings() }
}
