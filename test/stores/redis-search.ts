// Random sequences of operations on a Redis store beside the memory store. Some ids come late, from a process whose clock is behind: the
// places where Redis keeps jobs go by id, and one late id once hid all above it.

import fc from 'fast-check'
import { expect } from 'vitest'
import { type Memory, newMemory } from '../../src/stores/memory/memory.js'
import { storeOver } from '../../src/stores/memory/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { compare, type Tally } from './compare.js'
import type { Operation } from './operation.js'

/** To repeat a search, set HOLDFAST_PROPERTY_SEED to what its report says. */
const SEED = process.env.HOLDFAST_PROPERTY_SEED
/** Flow control is compared over the same sequences each time. To search further, set another seed and more runs. */
export const FLOW_SEED = 1_000
const START_MS = Date.UTC(2026, 0, 15, 12)

interface Searched {
  readonly url: string
  empty(): void
  /** What its keys say beyond or short of the jobs of the memory store. */
  stray(memory: Memory): readonly string[]
}

interface Search {
  readonly tally: Tally
  readonly sequences: fc.Arbitrary<Operation[]>
  readonly runs: number
  /** When a search ends early, before its test runs out of time: what is found is reported, shrunk as far as it got. */
  readonly endMs: number
  /** What the sequences are made from; others each time without it. */
  readonly seed?: number
}

export async function searchOn(server: Searched, { tally, sequences, runs, endMs, seed }: Search): Promise<void> {
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
        expect(server.stray(memory)).toEqual([])
      } finally {
        await candidate.close()
      }
    }),
    { numRuns: runs, interruptAfterTimeLimit: endMs, ...(base === undefined ? {} : { seed: base }) },
  )
}
