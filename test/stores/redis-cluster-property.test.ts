// The memory store is the specification: the Redis store over a cluster gives the same answer to every operation. Every run begins in another
// place: queues, chains and schedules of one run are in several shards.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisCluster } from '../../lab/servers/redis-cluster.js'
import { openRedisCluster } from '../support/redis-cluster.js'
import { newTally } from './compare.js'
import { FLOW_KINDS } from './flow-operations.js'
import { flowOperations, KINDS, longLivedOperations, operations } from './operations.js'
import { strayLimits } from './redis-flow-keys.js'
import { FLOW_SEED, searchOn } from './redis-search.js'

/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const RUNS = Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 20)
/** Of twenty runs drawn by lot, one time in twenty, no day would go by in any. */
const LONG_LIVED_RUNS = 3
const TIMEOUT_MS = 60_000 + RUNS * 9_000
const END_MS = TIMEOUT_MS - 20_000

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await openRedisCluster({ replicas: 0 })
}, 60_000)
afterAll(() => cluster.close())

describe('Redis store over a cluster', () => {
  test('answers as the memory store does, over 4,000 random operations', { timeout: TIMEOUT_MS }, async () => {
    const tally = newTally()
    const search = { tally, endMs: END_MS / 2 }

    const [everyday, longLived] = [operations(200, 230), longLivedOperations(200, 230)]
    await searchOn(searched(), { ...search, sequences: everyday, runs: RUNS - LONG_LIVED_RUNS })
    await searchOn(searched(), { ...search, sequences: longLived, runs: LONG_LIVED_RUNS })

    expect(tally.operations).toBeGreaterThanOrEqual(4_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS].sort())
  })

  test('answers as the memory store does with flow control, over 4,000 random operations', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const tally = newTally()
    const sequences = flowOperations(200, 230, { canReplace: true })

    await searchOn(searched(), { tally, sequences, runs: RUNS, endMs: END_MS, seed: FLOW_SEED })

    expect(tally.operations).toBeGreaterThanOrEqual(4_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS.filter((kind) => kind !== 'prune'), ...FLOW_KINDS].sort())
  })
})

const searched = () => ({
  url: cluster.url,
  empty: () => cluster.empty(),
  stray: (memory: Parameters<typeof strayLimits>[1]) => strayLimits(cluster, memory),
})
