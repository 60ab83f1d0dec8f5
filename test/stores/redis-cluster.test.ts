// The Redis store keeps every fact of the conformance suite over a cluster of three masters and three replicas as well.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisCluster } from '../../lab/servers/redis-cluster.js'
import { storeSuite } from '../../src/testing/store-suite/index.js'
import { openCleanStore, openPeerStore, openRedisCluster } from '../support/redis-cluster.js'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await openRedisCluster()
}, 60_000)
afterAll(() => cluster.close())

describe('Redis store over a cluster', () => {
  storeSuite({
    test,
    expect,
    openStore: (clock) => openCleanStore(cluster, clock),
    openPeer: (clock) => openPeerStore(cluster, clock),
    skip: test.skip,
  })
})
