// One claimable job behind many in groups that are full: how long its claim takes, and how many pages it reads.

import pg from 'pg'
import { NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../../src/core/flow/settings.js'
import { idMaker } from '../../../src/core/id.js'
import type { NewJob } from '../../../src/core/job.js'
import { CLAIM_FLOW } from '../../../src/stores/postgres/claim-flow.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { START_OPTIONS } from '../../../src/stores/postgres/session.js'
import { inSchema } from '../../../src/stores/postgres/statement.js'
import { systemPorts } from '../../../src/system-ports.js'
import type { PostgresServer } from '../../servers/postgres.js'
import { freshDatabase } from '../database.js'
import { type Spread, spreadOf } from '../statistics.js'
import { FLOW_QUEUE } from './loads.js'

const GROUPS = 100
const CHUNK = 50_000
const AMOUNT = 16
const newId = idMaker(Date.now, systemPorts.random)

export interface Blocked {
  readonly blockedJobs: number
  /** From the call to the answer, in milliseconds. */
  readonly claims: Spread
  /** Pages that a claim read, found in memory or not. */
  readonly pages: number
}

function jobOf(group: string): NewJob {
  return {
    ...{ id: newId(), queue: FLOW_QUEUE, type: 'work', payload: 'null', version: 1, priority: 0, when: null },
    ...{ limits: {}, idempotencyKey: null, after: [], onParentDead: 'cancel', tags: [], trace: null },
    flow: { group, limits: [], cost: 1 },
  }
}

/** Measures claims behind each number of jobs, in ascending order. */
export async function claimBehind(
  postgres: PostgresServer,
  counts: readonly number[],
  tries: number,
): Promise<Blocked[]> {
  const url = await freshDatabase(postgres.url)
  const store = await postgresStore(url)
  const sql = new pg.Client({ connectionString: url, options: START_OPTIONS })
  await sql.connect()
  try {
    const groups = { ...NO_GROUP_SETTINGS, concurrency: 1 }
    await store.setQueue(FLOW_QUEUE, { limits: {}, flow: { ...NO_QUEUE_FLOW, groups } }, 'bench')
    const claim = () =>
      store.claim({
        queues: [{ queue: FLOW_QUEUE, limit: AMOUNT }],
        types: ['work'],
        worker: 'bench',
        leaseMs: 3_600_000,
      })
    // One of each group runs, so that the others of it wait.
    await store.enqueue(Array.from({ length: GROUPS }, (_, index) => jobOf(`blocked-${index}`)))
    for (let taken = 0; taken < GROUPS; ) taken += (await claim()).jobs.length
    const results: Blocked[] = []
    let held = 0
    for (const blockedJobs of counts) {
      for (; held < blockedJobs; held += Math.min(CHUNK, blockedJobs - held)) {
        await hold(sql, Math.min(CHUNK, blockedJobs - held))
      }
      const tookMs: number[] = []
      for (let number = 0; number < tries; number++) {
        await store.enqueue([jobOf(`free-${blockedJobs}-${number}`)])
        const began = performance.now()
        const { jobs } = await claim()
        tookMs.push(performance.now() - began)
        if (jobs.length !== 1) throw new Error(`${jobs.length} jobs were claimed instead of one`)
      }
      const explained = await explain(sql, () => store.enqueue([jobOf(`explained-${blockedJobs}-${Math.random()}`)]))
      results.push({ blockedJobs, claims: spreadOf(tookMs), pages: explained })
    }
    return results
  } finally {
    await store.close()
    await sql.end()
  }
}

/** Jobs of the full groups, whose events were looked at in vain. */
async function hold(sql: pg.Client, count: number): Promise<void> {
  await sql.query(
    `INSERT INTO holdfast.held (id, position, since, track, priority, queue, group_name, type)
     SELECT gen_random_uuid(), nextval('holdfast.positions') * 65536, clock_timestamp(), (SELECT track FROM holdfast.tracks), 0, $1,
            'blocked-' || n % $2, 'work'
       FROM generate_series(1, $3) AS n`,
    [FLOW_QUEUE, GROUPS, count],
  )
}

/** Pages that a claim of one job reads. The first ones plan their statements, which reads the catalog. */
async function explain(sql: pg.Client, enqueue: () => Promise<unknown>): Promise<number> {
  for (let tries = 1; ; tries++) {
    await enqueue()
    const { rows } = await sql.query(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${inSchema(CLAIM_FLOW.sql, 'holdfast')}`,
      [null, FLOW_QUEUE, AMOUNT, '{work}', 3_600_000, 'bench', null, null, null, null, 0],
    )
    const plan = rows[0]['QUERY PLAN'][0].Plan
    if (tries === 4) return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
  }
}
