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
import { compare, newTally, type Tally } from './compare.js'
import { FLOW_KINDS } from './flow-operations.js'
import type { Operation } from './operation.js'
import { flowOperations, KINDS, operations } from './operations.js'
import { strayKeys } from './redis-flow-keys.js'

/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const RUNS = 2 * Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 50)
/** To repeat a search, set HOLDFAST_PROPERTY_SEED to what its report says. */
const SEED = process.env.HOLDFAST_PROPERTY_SEED
/** Flow control is compared over the same sequences each time. To search further, set another seed and more runs. */
const FLOW_SEED = 1_000
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

    await compareAll({ tally, sequences: operations(200, 230), runs: RUNS })

    expect(tally.operations).toBeGreaterThanOrEqual(20_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS].sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
  })

  test('answers as the memory store does with flow control, over 10,000 random operations', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const tally = newTally()

    await compareAll({
      tally,
      sequences: flowOperations(200, 230, { canReplace: true }),
      runs: RUNS / 2,
      seed: FLOW_SEED,
    })

    const kinds = [...KINDS.filter((kind) => kind !== 'prune'), ...FLOW_KINDS]
    expect(tally.operations).toBeGreaterThanOrEqual(10_000)
    expect([...tally.kinds.keys()].sort()).toEqual(kinds.sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
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
      server.empty()
      clock.set(START_MS)
      const candidate = await redisStore(server.url, { clock })
      const memory = newMemory()
      const reference = storeOver(memory, clock)
      try {
        await compare({ reference, memory, candidate, clock, tally, lateIds: true }, sequence)
        expect(strayKeys(server, memory)).toEqual([])
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
