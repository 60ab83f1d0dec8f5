// The memory store is the specification: the Redis store gives the same answer to every operation, whatever came before. Some ids come late,
// from a process whose clock is behind: the places where Redis keeps jobs go by id, and one late id once hid all above it.

import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { JOB_STATES } from '../../src/core/states.js'
import { newMemory } from '../../src/stores/memory/memory.js'
import { storeOver } from '../../src/stores/memory/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { openRedis } from '../support/redis.js'
import { compare, newTally } from './compare.js'
import { KINDS, operations } from './operations.js'

/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const RUNS = 2 * Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 50)
/** To repeat a search, set HOLDFAST_PROPERTY_SEED to what its report says. */
const SEED = process.env.HOLDFAST_PROPERTY_SEED
const TIMEOUT_MS = 40_000 + RUNS * 2_000
const START_MS = Date.UTC(2026, 0, 15, 12)

let server: RedisServer

beforeAll(async () => {
  server = await openRedis()
})
afterAll(() => server.close())

describe('Redis store', () => {
  test('answers as the memory store does, over 20,000 random operations', { timeout: TIMEOUT_MS }, async () => {
    const tally = newTally()
    const clock = manualClock(START_MS)

    await fc.assert(
      fc.asyncProperty(operations(200, 230), async (sequence) => {
        server.empty()
        clock.set(START_MS)
        const candidate = await redisStore(server.url, { clock })
        const memory = newMemory()
        const reference = storeOver(memory, clock)
        await compare({ reference, memory, candidate, clock, tally, lateIds: true }, sequence).finally(() =>
          candidate.close(),
        )
      }),
      {
        numRuns: RUNS,
        interruptAfterTimeLimit: TIMEOUT_MS - 20_000,
        ...(SEED === undefined ? {} : { seed: Number(SEED) }),
      },
    )

    expect(tally.operations).toBeGreaterThanOrEqual(20_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS].sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
  })
})
