// The Redis store keeps every fact of the conformance suite but those about what long jobs keep.

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
    lacks: { kept: 'the Redis store keeps nothing for long jobs yet' },
    skip: test.skip,
  })
})
