// The memory store is the specification: the Redis store gives the same answer to every operation, whatever came before.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { JOB_STATES } from '../../src/core/states.js'
import { openRedis } from '../support/redis.js'
import { newTally } from './compare.js'
import { FLOW_KINDS } from './flow-operations.js'
import { flowOperations, KINDS, operations } from './operations.js'
import { strayKeys } from './redis-flow-keys.js'
import { FLOW_SEED, searchOn } from './redis-search.js'

/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const RUNS = 2 * Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 50)
const TIMEOUT_MS = 40_000 + RUNS * 2_000
const END_MS = TIMEOUT_MS - 20_000

let server: RedisServer

beforeAll(async () => {
  server = await openRedis()
})
afterAll(() => server.close())

describe('Redis store', () => {
  test('answers as the memory store does, over 20,000 random operations', { timeout: TIMEOUT_MS }, async () => {
    const tally = newTally()

    await searchOn(searched(), { tally, sequences: operations(200, 230), runs: RUNS, endMs: END_MS })

    expect(tally.operations).toBeGreaterThanOrEqual(20_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS].sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
  })

  test('answers as the memory store does with flow control, over 10,000 random operations', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const tally = newTally()
    const sequences = flowOperations(200, 230, { canReplace: true })

    await searchOn(searched(), { tally, sequences, runs: RUNS / 2, endMs: END_MS, seed: FLOW_SEED })

    const kinds = [...KINDS.filter((kind) => kind !== 'prune'), ...FLOW_KINDS]
    expect(tally.operations).toBeGreaterThanOrEqual(10_000)
    expect([...tally.kinds.keys()].sort()).toEqual(kinds.sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
  })
})

const searched = () => ({
  url: server.url,
  empty: () => server.empty(),
  stray: (memory: Parameters<typeof strayKeys>[1]) => strayKeys(server, memory),
})
