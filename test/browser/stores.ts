// The stores that the dashboard is tested on, each empty when it is opened. A file has one server of each kind.

import type { RedisServer } from '../../lab/servers/redis.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'
import { openCleanStore as openCleanRedis, openRedis } from '../support/redis.js'

const { clock } = systemPorts

export interface StoreKind {
  readonly name: string
  open(): Promise<Store>
  close(): Promise<void>
}

/** `schema` is the file's own on PostgreSQL. */
export function storeKinds(schema: string): readonly [memory: StoreKind, postgres: StoreKind, redis: StoreKind] {
  let redis: Promise<RedisServer> | null = null
  return [
    { name: 'memory', open: async () => memoryStore({ clock }), close: async () => {} },
    {
      name: 'PostgreSQL',
      open: () => openCleanStore(testServerUrl(), schema, clock),
      close: () => dropSchema(testServerUrl(), schema),
    },
    {
      name: 'Redis',
      open: async () => {
        redis ??= openRedis()
        return openCleanRedis(await redis, clock)
      },
      close: async () => (await redis)?.close(),
    },
  ]
}
