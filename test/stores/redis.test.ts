// The Redis store keeps every fact of the conformance suite.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { storeSuite } from '../../src/testing/store-suite/index.js'
import { openCleanStore, openPeerStore, openRedis } from '../support/redis.js'

let server: RedisServer

beforeAll(async () => {
  server = await openRedis()
})
afterAll(() => server.close())

describe('Redis store', () => {
  storeSuite({
    test,
    expect,
    openStore: (clock) => openCleanStore(server, clock),
    openPeer: (clock) => openPeerStore(server, clock),
    skip: test.skip,
  })
})
