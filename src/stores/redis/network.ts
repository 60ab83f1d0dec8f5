// The servers that a URL names, and the way to each shard on them.

import { addressesOf } from './addresses.js'
import { Cluster, ClusterRoute } from './cluster.js'
import { OneServer, type Route } from './route.js'
import { SentinelRoute } from './sentinel.js'
import { slotOf } from './tags.js'

export interface Network {
  readonly kind: 'server' | 'cluster' | 'sentinel'
  route(shard: number): Route
  /** Adds a listener for changes of servers. */
  onChange(listener: () => void): void
  close(): Promise<void>
}

/** Nothing is opened before it is used. Raises `invalid_url`. */
export function openNetwork(url: string, connectMs: number): Network {
  const addresses = addressesOf(url)
  if (addresses.kind === 'cluster') {
    const cluster = new Cluster({ seeds: addresses.seeds, connectMs })
    return {
      kind: 'cluster',
      route: (shard) => new ClusterRoute(cluster, slotOf(shard)),
      onChange: (listener) => cluster.onChange(listener),
      close: () => cluster.close(),
    }
  }
  const { kind } = addresses
  const route =
    kind === 'sentinel'
      ? new SentinelRoute({ ...addresses, connectMs })
      : new OneServer({ url: addresses.url, connectMs })
  return { kind, route: () => route, onChange() {}, close: () => route.close() }
}
