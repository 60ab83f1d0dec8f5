// The memory store is the specification: every other store gives the same answer to every operation, whatever came before.

import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { JOB_STATES } from '../../src/core/states.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { compare, newTally } from './compare.js'
import { KINDS, operations } from './operations.js'

const URL = process.env.HOLDFAST_TEST_URL ?? 'postgres://postgres@127.0.0.1:5599/dev'
const SCHEMA = `property_${process.pid}`
const RUNS = Number(process.env.RUNS ?? 150)
const START = Date.UTC(2026, 0, 15, 12)

describe('PostgreSQL against memory', () => {
  const sql = new pg.Client(URL)
  const clock = manualClock(START)
  let candidate: Store

  beforeAll(async () => {
    await sql.connect()
    candidate = await postgresStore(URL, { schema: SCHEMA, clock })
  })
  afterAll(async () => {
    await candidate.close()
    await sql.query(`DROP SCHEMA "${SCHEMA}" CASCADE`)
    await sql.end()
  })

  test('answers are the same for random operations', { timeout: 600_000 }, async () => {
    const tally = newTally()
    let resetMs = 0

    const begun = performance.now()
    await fc.assert(
      fc.asyncProperty(operations(320), async (sequence) => {
        const t = performance.now()
        await sql.query(CLEAN.replaceAll(':schema', SCHEMA))
        resetMs += performance.now() - t
        clock.set(START)
        await compare({ reference: memoryStore({ clock }), candidate, clock, tally }, sequence)
      }),
      { numRuns: RUNS },
    )
    process.stderr.write(
      `${tally.operations} ops in ${performance.now() - begun} ms, reset ${resetMs}\n${[...tally.kinds].map(([k, n]) => k + ' ' + n).join(', ')}\n`,
    )

    expect(tally.operations).toBeGreaterThanOrEqual(20_000)
    expect(new Set(tally.kinds.keys())).toEqual(new Set(KINDS))
    expect(tally.states).toEqual(new Set(JOB_STATES))
  })
})

const CLEAN = `
DO $$
DECLARE
  part record;
BEGIN
  FOR part IN SELECT relname FROM pg_class WHERE relnamespace = ':schema'::regnamespace AND relispartition AND relkind = 'r' AND relname ~ '_[0-9]{8}$' LOOP
    EXECUTE format('DROP TABLE ":schema".%I', part.relname);
  END LOOP;
  FOR part IN SELECT relname FROM pg_class WHERE relnamespace = ':schema'::regnamespace AND NOT relispartition AND relkind IN ('r', 'p') AND relname <> 'migrations' LOOP
    EXECUTE format('TRUNCATE ":schema".%I', part.relname);
  END LOOP;
END
$$`
