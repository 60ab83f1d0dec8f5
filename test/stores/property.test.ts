// The memory store is the specification: every other store gives the same answer to every operation, whatever came before.

import fc from 'fast-check'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { JOB_STATES } from '../../src/core/states.js'
import type { Store } from '../../src/core/store.js'
import { newMemory } from '../../src/stores/memory/memory.js'
import { storeOver } from '../../src/stores/memory/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { compare, newTally, type Tally } from './compare.js'
import { FLOW_KINDS } from './flow-operations.js'
import type { Operation } from './operation.js'
import { flowOperations, KINDS, operations } from './operations.js'
import { canReplace } from './replacing.js'

const url = testServerUrl()
/** A comparison waits for the server most of the time, so two run concurrently, each in a schema of its own. */
const schemas = [1, 2].map((number) => `property_${process.pid}_${number}`)
/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const RUNS_EACH = Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 50)
/** To repeat a search, set HOLDFAST_PROPERTY_SEED to what its report says. */
const SEED = process.env.HOLDFAST_PROPERTY_SEED
/** Flow control is compared over the same sequences each time. To search further, set another seed and more runs. */
const FLOW_SEED = 1_000
const TIMEOUT_MS = 40_000 + RUNS_EACH * 4_000
const LENGTH_MIN = 200
const LENGTH_MAX = 230
const START_MS = Date.UTC(2026, 0, 15, 12)

describe('PostgreSQL store', () => {
  afterAll(() => Promise.all(schemas.map((schema) => dropSchema(url, schema))))

  test('answers as the memory store does, over 20,000 random operations', { timeout: TIMEOUT_MS }, async () => {
    const tally = newTally()
    const sequences = async () => operations(LENGTH_MIN, LENGTH_MAX)

    await compareAll({ tally, sequences, runs: RUNS_EACH })

    expect(tally.operations).toBeGreaterThanOrEqual(20_000)
    expect([...tally.kinds.keys()].sort()).toEqual([...KINDS].sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
  })

  test('answers as the memory store does with flow control, over 10,000 random operations', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const tally = newTally()
    const sequences = async (candidate: Store) =>
      flowOperations(LENGTH_MIN, LENGTH_MAX, { canReplace: await canReplace(candidate) })

    await compareAll({ tally, sequences, runs: Math.ceil(RUNS_EACH / 2), seed: FLOW_SEED })

    const kinds = [...KINDS.filter((kind) => kind !== 'prune'), ...FLOW_KINDS]
    expect(tally.operations).toBeGreaterThanOrEqual(10_000)
    expect([...tally.kinds.keys()].sort()).toEqual(kinds.sort())
    expect([...tally.states].sort()).toEqual([...JOB_STATES].sort())
  })
})

interface Search {
  readonly tally: Tally
  /** What a store is compared with. */
  readonly sequences: (candidate: Store) => Promise<fc.Arbitrary<Operation[]>>
  readonly runs: number
  /** What the sequences are made from; others each time without it. */
  readonly seed?: number
}

async function compareAll(search: Search): Promise<void> {
  found = null
  const endings = await Promise.allSettled(schemas.map((schema) => compareMany(schema, search)))
  for (const ending of endings) if (ending.status === 'rejected') throw ending.reason
}

/** The schema in which a difference was found: the others stop, so that it can shrink and be reported. */
let found: string | null = null

async function compareMany(schema: string, { tally, sequences, runs, seed }: Search): Promise<void> {
  const clock = manualClock(START_MS)
  const candidate = await postgresStore(url, { schema, clock })
  const sql = new pg.Client(url)
  await sql.connect()
  const base = SEED === undefined ? seed : Number(SEED)
  try {
    await fc.assert(
      fc.asyncProperty(await sequences(candidate), async (sequence) => {
        if (found !== null && found !== schema) return
        await sql.query(CLEAN.replaceAll(':schema', schema))
        clock.set(START_MS)
        const memory = newMemory()
        const reference = storeOver(memory, clock)
        await compare({ reference, memory, candidate, clock, tally }, sequence).catch((error) => {
          found ??= schema
          throw error
        })
      }),
      // What is found is reported before the test runs out of time, shrunk as far as it got.
      {
        numRuns: runs,
        interruptAfterTimeLimit: TIMEOUT_MS - 20_000,
        ...(base === undefined ? {} : { seed: base + schemas.indexOf(schema) }),
      },
    )
  } finally {
    await candidate.close()
    await sql.end()
  }
}

// Empties every table and drops the days, so that each run begins with the same: what it makes of days is compared too.
// DELETE, because new files from TRUNCATE would also make every prepared statement be planned again.
const CLEAN = `
DO $$
DECLARE
  kept record;
BEGIN
  FOR kept IN SELECT relname, relispartition AS is_day
                FROM pg_class
               WHERE relnamespace = ':schema'::regnamespace
                 AND relkind IN ('r', 'p')
                 AND relname <> 'migrations'
                 AND (NOT relispartition OR relname ~ '_[0-9]{8}$')
               ORDER BY relispartition DESC
  LOOP
    EXECUTE format(CASE WHEN kept.is_day THEN 'DROP TABLE ":schema".%I' ELSE 'DELETE FROM ":schema".%I' END, kept.relname);
  END LOOP;
  -- As whatever detaches a partition does.
  PERFORM :schema.renew_rest(part) FROM unnest(ARRAY['jobs', 'finished', 'attempts', 'logs', 'progress']) AS part;
END
$$`
