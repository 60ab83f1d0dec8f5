// The memory store is the specification: the Redis store over a cluster gives the same answer to every operation. Every run begins in another
// place: queues, chains and schedules of one run are in several shards.

import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisCluster } from '../../lab/servers/redis-cluster.js'
import { newMemory } from '../../src/stores/memory/memory.js'
import { storeOver } from '../../src/stores/memory/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { openRedisCluster } from '../support/redis-cluster.js'
import { compare, newTally, type Tally } from './compare.js'
import { FLOW_KINDS } from './flow-operations.js'
import type { Operation } from './operation.js'
import { flowOperations, KINDS, longLivedOperations, operations } from './operations.js'
import { strayLimits } from './redis-flow-keys.js'

/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const RUNS = Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 20)
/** Of twenty runs drawn by lot, one time in twenty, no day would go by in any. */
const LONG_LIVED_RUNS = 3
/** To repeat a search, set HOLDFAST_PROPERTY_SEED to what its report says. */
const SEED = process.env.HOLDFAST_PROPERTY_SEED
/** Flow control is compared over the same sequences each time. To search further, set another seed and more runs. */
const FLOW_SEED = 1_000
const TIMEOUT_MS = 60_000 + RUNS * 9_000
const START_MS = Date.UTC(2026, 0, 15, 12)

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await openRedisCluster({ replicas: 0 })
}, 60_000)
afterAll(() => cluster.close())

describe('Redis store over a cluster', () => {
  test('answers as the memory store does, over 4,000 random operations', { timeout: TIMEOUT_MS }, async () => {
    const tally = newTally()

    await compareAll({ tally, sequences: operations(200, 230), runs: RUNS - LONG_LIVED_RUNS })
    await compareAll({ tally, sequences: longLivedOperations(200, 230), runs: LONG_LIVED_RUNS })

    expect(tally.operations).toBeGreaterThanOrEqual(4_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS].sort())
  })

  test('answers as the memory store does with flow control, over 4,000 random operations', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const tally = newTally()

    const sequences = flowOperations(200, 230, { canReplace: true })
    await compareAll({ tally, sequences, runs: RUNS, seed: FLOW_SEED })

    expect(tally.operations).toBeGreaterThanOrEqual(4_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS.filter((kind) => kind !== 'prune'), ...FLOW_KINDS].sort())
  })
})

interface Search {
  readonly tally: Tally
  readonly sequences: fc.Arbitrary<Operation[]>
  readonly runs: number
  /** What the sequences are made from; others each time without it. */
  readonly seed?: number
}

async function compareAll({ tally, sequences, runs, seed }: Search): Promise<void> {
  const clock = manualClock(START_MS)
  const base = SEED === undefined ? seed : Number(SEED)
  await fc.assert(
    fc.asyncProperty(sequences, async (sequence) => {
      cluster.empty()
      clock.set(START_MS)
      const candidate = await redisStore(cluster.url, { clock })
      const memory = newMemory()
      const reference = storeOver(memory, clock)
      try {
        await compare({ reference, memory, candidate, clock, tally, lateIds: true }, sequence)
        expect(strayLimits(cluster, memory)).toEqual([])
      } finally {
        await candidate.close()
      }
    }),
    {
      numRuns: runs,
      interruptAfterTimeLimit: TIMEOUT_MS - 20_000,
      ...(base === undefined ? {} : { seed: base }),
    },
  )
}
