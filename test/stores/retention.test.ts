// Retention on PostgreSQL: days with many leftovers go, whatever their jobs do meanwhile, and nobody waits for it.

import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { stuckCloser } from '../../src/stores/postgres/close-days.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import {
  DAY_MS,
  dead,
  idAt,
  MINUTE_MS,
  newJob,
  newNote,
  OPERATOR,
  QUEUE,
  released,
  retrying,
  START_MS,
  succeeded,
} from '../../src/testing/store-suite/samples.js'
import { claimJob, claimJobs, enqueueJob, jobIn, startJob, stateOf } from '../../src/testing/store-suite/steps.js'
import { databaseOf, dropSchema, openCleanStore, openPeerStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `retention_${process.pid}`
const FIRST_DAY = '2026-03-01'
const STATES = ['blocked', 'scheduled', 'ready', 'running', 'finished', 'dead']

let clock: ManualClock
let store: Store
let sql: pg.Client

beforeAll(async () => {
  await openCleanStore(url, schema, manualClock())
  sql = new pg.Client({ connectionString: url, application_name: 'a dump' })
  await sql.connect()
})

beforeEach(async () => {
  await sql.query('ROLLBACK')
  await dropSchema(url, schema)
  clock = manualClock(START_MS)
  store = await openCleanStore(url, schema, clock)
  await store.prune({ retentionMs: DAY_MS })
}, 60_000)

afterAll(async () => {
  await sql.end()
  await dropSchema(url, schema)
})

/** Writes jobs of a day beneath the store: `finished` that are over since that day, and `leftovers` that are dead. */
async function fill(day: string, { finished, leftovers }: { finished: number; leftovers: number }): Promise<void> {
  const ids = (from: number, to: number) =>
    `SELECT (left(${schema}.day_floor('${day}')::text, 24) || lpad(to_hex(n), 12, '0'))::uuid AS id
       FROM generate_series(${from}, ${to}) AS n`
  const jobs = (source: string) => `
    INSERT INTO ${schema}.jobs (id, created_at, position, priority, version, queue, type, payload)
    SELECT id, '${day}', 0, 0, 1, '${QUEUE}', 'work', '{"n":1}' FROM (${source}) AS new`
  const over = ids(1, finished)
  const left = ids(finished + 1, finished + leftovers)
  await sql.query(jobs(over))
  await sql.query(`INSERT INTO ${schema}.finished (id, finished_at, attempt, crashes, ending)
                   SELECT id, '${day}', 1, 0, 'succeeded' FROM (${over}) AS new`)
  await sql.query(jobs(left))
  await sql.query(`INSERT INTO ${schema}.dead (id, died_at, fence, priority, attempt, crashes, reason, queue, type)
                   SELECT id, '${day}', 1, 0, 1, 0, 'attempts', '${QUEUE}', 'work' FROM (${left}) AS new`)
}

async function pruneUntilDone(retentionMs = DAY_MS): Promise<string[]> {
  const all: string[] = []
  for (let call = 0; call < 200; call++) {
    const { days, isDone } = await store.prune({ retentionMs })
    all.push(...days)
    if (isDone) return all.sort()
  }
  throw new Error('pruning did not end within 200 calls')
}

async function tables(): Promise<string[]> {
  const { rows } = await sql.query(
    `SELECT relname FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind = 'r'
        AND relname ~ '_20260[0-9]{3}' ORDER BY relname`,
  )
  return rows.map(({ relname }) => relname)
}

/** Jobs that are not in exactly one state, or whose facts are not there exactly once. */
async function broken(): Promise<unknown[]> {
  const states = STATES.map((table) => `SELECT id FROM ${schema}.${table}`).join(' UNION ALL ')
  const { rows } = await sql.query(`
    SELECT id, (SELECT count(*) FROM ${schema}.jobs WHERE jobs.id = job.id) AS facts,
           (SELECT count(*) FROM (${states}) AS state WHERE state.id = job.id) AS states
      FROM (SELECT id FROM ${schema}.jobs UNION SELECT id FROM (${states}) AS state) AS job
     WHERE (SELECT count(*) FROM ${schema}.jobs WHERE jobs.id = job.id) <> 1
        OR (SELECT count(*) FROM (${states}) AS state WHERE state.id = job.id) <> 1`)
  return rows
}

async function count(table: string): Promise<number> {
  const { rows } = await sql.query(`SELECT count(*)::integer AS count FROM ${schema}.${table}`)
  return rows[0].count
}

/** How many rows of the default partitions were read from one end to the other, ever. */
async function restReads(): Promise<number> {
  await sql.query('SELECT pg_stat_force_next_flush()')
  const { rows } = await sql.query(
    `SELECT sum(seq_tup_read)::integer AS read FROM pg_stat_all_tables WHERE schemaname = '${schema}' AND relname ~ '_rest'`,
  )
  return rows[0].read
}

// F49 of docs/findings/chaos.md.
describe('days with many leftovers', () => {
  test('three days with more than 10,000 leftovers go, and so do the days behind them', async () => {
    for (const day of [FIRST_DAY, '2026-03-02', '2026-03-03']) await fill(day, { finished: 50, leftovers: 10_001 })
    await fill('2026-03-04', { finished: 50, leftovers: 0 })
    await clock.advance(10 * DAY_MS)

    const days = await pruneUntilDone()

    expect(days).toEqual([FIRST_DAY, '2026-03-02', '2026-03-03', '2026-03-04'])
    expect((await tables()).filter((table) => table < 'jobs_20260311' && table.startsWith('jobs_'))).toEqual([])
    expect([await count('jobs'), await count('dead'), await count('finished')]).toEqual([30_003, 30_003, 0])
    const { rows } = await sql.query(`SELECT id FROM ${schema}.dead ORDER BY id LIMIT 1`)
    await store.requeue([rows[0].id], OPERATOR)
    const job = await claimJob(store)
    await store.settle([succeeded(job)])
    expect([job.id, await stateOf(store, job.id)]).toEqual([rows[0].id, 'succeeded'])
  }, 120_000)

  test('a day with more leftovers than can be carried is passed over and named, and the others go', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 100_001 })
    await fill('2026-03-02', { finished: 10, leftovers: 0 })
    await clock.advance(10 * DAY_MS)

    const days = await pruneUntilDone()

    expect(days).toEqual(['2026-03-02'])
    const { postponed } = await store.prune({ retentionMs: DAY_MS })
    expect(postponed).toEqual([{ day: FIRST_DAY, why: expect.stringMatching(/^more than 100000 of its jobs/) }])
    expect((await store.health()).postgres!.postponedDays).toEqual(postponed)
    expect(await count('jobs')).toBe(100_011)
    await sql.query(`DELETE FROM ${schema}.closing_changes`)
    await sql.query(`UPDATE ${schema}.jobs SET priority = 0 WHERE id = (SELECT id FROM ${schema}.dead LIMIT 1)`)
    expect(await count('closing_changes')).toBe(0)
  }, 120_000)

  test('a day that is passed over goes once its leftovers are gone', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 100_001 })
    await clock.advance(10 * DAY_MS)
    await pruneUntilDone()
    await sql.query(`INSERT INTO ${schema}.finished (id, finished_at, attempt, crashes, ending)
                     SELECT id, '${FIRST_DAY}', 1, 0, 'cancelled' FROM ${schema}.dead; DELETE FROM ${schema}.dead`)
    await clock.advance(61 * MINUTE_MS)

    expect(await pruneUntilDone()).toEqual([FIRST_DAY])
    expect((await store.prune({ retentionMs: DAY_MS })).postponed).toEqual([])
  }, 120_000)
})

describe('beside others', () => {
  test('no other upkeep waits while pruning waits', async () => {
    const stranger = new pg.Client({ connectionString: url })
    await stranger.connect()
    await stranger.query(`BEGIN; LOCK TABLE ${schema}.keys IN ACCESS EXCLUSIVE MODE`)

    const pruning = store.prune({ retentionMs: DAY_MS })
    await untilWaiting()

    await expect(store.promote(10)).resolves.toMatchObject({ promoted: 0 })
    await expect(store.expired(10)).resolves.toMatchObject({ jobs: [] })
    await stranger.query('COMMIT')
    await pruning
    await stranger.end()
  })

  test('a stranger who takes locks that go by name keeps no day from going, and none from being made', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 3 })
    await clock.advance(10 * DAY_MS)
    const stranger = new pg.Client({ connectionString: url })
    await stranger.connect()
    for (const work of ['close', 'open', 'migrate']) {
      await stranger.query(`SELECT pg_advisory_lock(hashtextextended('holdfast ${work} ${schema}', 0))`)
    }

    const days = await pruneUntilDone()
    await stranger.end()

    expect(days).toEqual([FIRST_DAY])
    expect(await tables()).toEqual(expect.arrayContaining(['jobs_20260311', 'jobs_20260314']))
  }, 60_000)

  test('a process that closes days and does not go on is named', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 3 })
    await clock.advance(10 * DAY_MS)
    const db = await databaseOf(url, schema)
    const stuck = new pg.Client({ connectionString: url, application_name: 'a stopped process' })
    await stuck.connect()
    const now = new Date(clock.now()).toISOString()
    await stuck.query('BEGIN')
    await stuck.query(`SELECT ${schema}.close_day('${FIRST_DAY}', '${now}', '${now}')`)

    const soon = await store.prune({ retentionMs: DAY_MS })
    const held = await stuckCloser(db, 0)

    expect([soon.days, soon.postponed, soon.isDone]).toEqual([[], [], true])
    expect(held).toMatch(/another process is at it and does not go on: .*pid \d+, .*a stopped process/)
    await stuck.query('ROLLBACK')
    expect(await stuckCloser(db, 0)).toBe(null)
    await stuck.end()
    expect(await pruneUntilDone()).toEqual([FIRST_DAY])
  }, 60_000)

  test('a day that cannot be locked is named with who uses it, and the days to come are made all the same', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 3 })
    await fill('2026-03-02', { finished: 10, leftovers: 3 })
    await clock.advance(10 * DAY_MS)
    await sql.query(`BEGIN; SELECT FROM ${schema}.jobs_20260301 LIMIT 1`)

    const days = new Set<string>()
    let postponed: readonly unknown[] = []
    for (let call = 0; call < 40; call++) {
      const pruned = await store.prune({ retentionMs: DAY_MS })
      for (const day of pruned.days) days.add(day)
      postponed = pruned.postponed
      if (pruned.isDone) break
    }

    expect([...days]).toEqual(['2026-03-02'])
    expect(postponed).toEqual([{ day: FIRST_DAY, why: expect.stringMatching(/in use by a transaction .*a dump/) }])
    expect(await tables()).toEqual(expect.arrayContaining(['jobs_20260311', 'jobs_20260314', 'finished_20260314']))
    await sql.query('COMMIT')
    await clock.advance(2 * MINUTE_MS)
    expect(await pruneUntilDone()).toEqual([FIRST_DAY])
    expect(await broken()).toEqual([])
  }, 60_000)

  test('a day that takes too long to close is named with the step and its limit, and with no stranger', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 3 })
    await clock.advance(5 * DAY_MS)
    await sql.query(`CREATE FUNCTION ${schema}.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
                     BEGIN PERFORM pg_sleep(10); RETURN NEW; END $$;
                     CREATE TRIGGER dawdle BEFORE INSERT ON ${schema}.jobs_rest
                     FOR EACH ROW EXECUTE FUNCTION ${schema}.dawdle()`)

    let named: { readonly day: string; readonly why: string } | undefined
    for (let call = 0; call < 40 && named === undefined; call++) {
      const { postponed } = await store.prune({ retentionMs: DAY_MS })
      named = postponed.find(({ day }) => day === FIRST_DAY)
    }
    await sql.query(`DROP TRIGGER dawdle ON ${schema}.jobs_rest`)
    await clock.advance(2 * MINUTE_MS)

    const why = /^closing it does not get past a step \(peeling\) that takes longer than the 450 ms/
    expect(named?.why).toMatch(why)
    expect([await pruneUntilDone(), await broken()]).toEqual([[FIRST_DAY], []])
  }, 60_000)

  test('a session that is open changes jobs in the default partition that were carried there after it had read it', async () => {
    await fill(FIRST_DAY, { finished: 0, leftovers: 3 })
    const ahead = await enqueueJob(store, { id: idAt(clock.now() + 30 * DAY_MS) })
    await clock.advance(5 * DAY_MS)
    for (let step = ''; step !== 'peeling'; ) step = await closeStep()
    await sql.query(`UPDATE ${schema}.jobs SET priority = 1 WHERE id = '${ahead}'`)

    expect([await closeStep(), await closeStep()]).toEqual(['peeling', 'empty'])
    const { rowCount } = await sql.query(
      `UPDATE ${schema}.jobs SET priority = 1 WHERE id IN (SELECT id FROM ${schema}.dead)`,
    )

    expect([rowCount, await count('jobs_rest_new')]).toEqual([3, 4])
  })

  test('jobs of days that never got partitions are put to the old ones, some thousand at a time', async () => {
    await fill('2026-03-07', { finished: 100, leftovers: 12_000 })
    const ahead = await enqueueJob(store, { id: idAt(clock.now() + 30 * DAY_MS) })
    await clock.advance(10 * DAY_MS)

    const days = await pruneUntilDone()
    // A step that a busy machine does not end within its limit is left to the next call.
    for (let call = 0; call < 20 && (await count('jobs_rest_new')) > 1; call++) await pruneUntilDone()

    expect([days, await broken(), await stateOf(store, ahead)]).toEqual([['2026-03-07'], [], 'ready'])
    expect([await count('jobs_rest_old'), await count('jobs_rest_new')]).toEqual([12_000, 1])
  }, 60_000)

  test('a server too slow to move all of them within the limit moves them in smaller numbers', async () => {
    await fill('2026-03-07', { finished: 0, leftovers: 1_000 })
    const ahead = await enqueueJob(store, { id: idAt(clock.now() + 30 * DAY_MS) })
    await clock.advance(10 * DAY_MS)
    await sql.query(`CREATE FUNCTION ${schema}.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
                     BEGIN PERFORM pg_sleep(0.001); RETURN OLD; END $$;
                     CREATE TRIGGER dawdle BEFORE DELETE ON ${schema}.jobs_rest_new
                     FOR EACH ROW EXECUTE FUNCTION ${schema}.dawdle()`)

    for (let call = 0; call < 200 && (await count('jobs_rest_new')) > 1; call++) {
      await store.prune({ retentionMs: 30 * DAY_MS })
    }

    expect([await count('jobs_rest_old'), await count('jobs_rest_new')]).toEqual([1_000, 1])
    expect([await broken(), await stateOf(store, ahead)]).toEqual([[], 'ready'])
  }, 120_000)

  test('a day to come that takes too long to make is named with the size of what is read for it, and with no stranger', async () => {
    await clock.advance(2 * DAY_MS)
    const job = await enqueueJob(store, { id: idAt(clock.now() + 3 * DAY_MS) })
    await sql.query(`CREATE FUNCTION ${schema}.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
                     BEGIN PERFORM pg_sleep(10); RETURN OLD; END $$;
                     CREATE TRIGGER dawdle BEFORE DELETE ON ${schema}.jobs_rest_new
                     FOR EACH ROW EXECUTE FUNCTION ${schema}.dawdle()`)

    const { postponed } = await store.prune({ retentionMs: DAY_MS })
    await sql.query(`DROP TRIGGER dawdle ON ${schema}.jobs_rest_new`)
    const after = await store.prune({ retentionMs: DAY_MS })

    const why =
      /^its partitions cannot be made yet: that took longer than the 450 ms .*\(jobs_rest_new and its like, \d+ MB\)/
    expect(postponed).toEqual([{ day: '2026-03-06', why: expect.stringMatching(why) }])
    expect([after.postponed, await stateOf(store, job)]).toEqual([[], 'ready'])
  })

  test('a day to come is made without reading what was carried out of old days, in any of the tables', async () => {
    for (const day of [FIRST_DAY, '2026-03-02']) await fill(day, { finished: 5, leftovers: 500 })
    await sql.query(
      `INSERT INTO ${schema}.attempts (id, fence, started_at, finished_at, attempt, error)
       SELECT id, 1, died_at, died_at, 1, '{}' FROM ${schema}.dead;
       INSERT INTO ${schema}.logs (id, at, text) SELECT id, died_at, 'x' FROM ${schema}.dead;
       INSERT INTO ${schema}.progress (id, value) SELECT id, '1' FROM ${schema}.dead`,
    )
    await clock.advance(10 * DAY_MS)
    await pruneUntilDone()
    expect(await count('jobs_rest')).toBe(1_000)
    const before = await restReads()

    await sql.query(`SELECT ${schema}.open_day('2026-03-15')`)

    expect((await restReads()) - before).toBe(0)
    expect(await tables()).toContain('progress_20260315')
  }, 60_000)

  test('the old half of the default partition grows without being read under the lock, beside a day that is still there', async () => {
    await fill(FIRST_DAY, { finished: 5, leftovers: 500 })
    await fill('2026-03-03', { finished: 5, leftovers: 500 })
    await clock.advance(3 * DAY_MS)
    await pruneUntilDone()
    expect([await count('jobs_rest_old'), await count('jobs_20260303')]).toEqual([500, 505])
    await raiseRest('2026-03-05', 'raising')
    const before = await restReads()

    await raiseRest('2026-03-05', 'raised')

    expect((await restReads()) - before).toBe(0)
  }, 60_000)

  test('a day is closed though the bound of the default partition above it was about to be raised', async () => {
    await fill(FIRST_DAY, { finished: 5, leftovers: 5 })
    await clock.advance(5 * DAY_MS)
    await raiseRest('2026-03-05', 'raised')
    await raiseRest('2026-03-06', 'raising')

    let end = ''
    while (end !== 'dropped') end = await closeStep()

    expect([await broken(), await count('jobs_rest_old')]).toEqual([[], 5])
  }, 60_000)

  test('two processes that prune at the same moment drop each day once', async () => {
    for (const day of [FIRST_DAY, '2026-03-02']) await fill(day, { finished: 20, leftovers: 20 })
    await clock.advance(10 * DAY_MS)
    const peer = await openPeerStore(url, schema, clock)
    const days: string[] = []

    for (let call = 0; call < 20; call++) {
      const pruned = await Promise.all([store, peer].map((one) => one.prune({ retentionMs: DAY_MS })))
      for (const one of pruned) days.push(...one.days)
    }

    expect(days.sort()).toEqual([FIRST_DAY, '2026-03-02'])
    expect([await broken(), await count('jobs')]).toEqual([[], 40])
  }, 60_000)

  test('a clock that was days ahead and comes back while a day is being closed has that day made again', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 6_000 })
    await clock.advance(10 * DAY_MS)
    for (let step = ''; step !== 'peeling'; ) step = await closeStep()
    await closeStep()
    store = await openPeerStore(url, schema, manualClock(START_MS))

    await pruneUntilDone()
    await pruneUntilDone()

    expect([await broken(), await count('jobs'), await count('closing_days')]).toEqual([[], 6_000, 0])
    expect(await tables()).toContain('jobs_20260301')
  }, 60_000)

  test('a retention that is lengthened meanwhile keeps the day', async () => {
    await fill(FIRST_DAY, { finished: 10, leftovers: 3 })
    await clock.advance(10 * DAY_MS)
    for (let step = 0; step < 3; step++) await closeStep()
    await store.setQueue(QUEUE, { limits: {}, retentionMs: 30 * DAY_MS }, OPERATOR)

    expect(await pruneUntilDone()).toEqual([])
    expect([await count('finished'), await count('closing_days')]).toEqual([10, 0])
  })
})

/** One step of closing the first day, as the store asks for it; resolves with the next. */
async function closeStep(): Promise<string> {
  const now = new Date(clock.now()).toISOString()
  const keepAfter = new Date(clock.now() - DAY_MS).toISOString()
  const { rows } = await sql.query(`SELECT ${schema}.close_day($1, $2, $3) AS step`, [FIRST_DAY, keepAfter, now])
  return rows[0].step
}

/** Raises the bound of the old half of the default partition to a day, step by step until one is next. */
async function raiseRest(day: string, until: string): Promise<void> {
  for (let step = '', steps = 0; step !== until; steps++) {
    if (steps > 5) throw new Error(`the next step is ${step}, and ${until} does not come`)
    const { rows } = await sql.query(`SELECT ${schema}.raise_rest($1, 5000) AS step`, [day])
    step = rows[0].step
  }
}

async function untilWaiting(): Promise<void> {
  for (let look = 0; look < 1_000; look++) {
    const { rows } = await sql.query(
      `SELECT FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE NOT granted AND relname = 'keys'
          AND relnamespace = '${schema}'::regnamespace`,
    )
    if (rows.length > 0) return
  }
  throw new Error('nothing waits for the lock of keys')
}

describe('jobs of a day that is being closed', () => {
  // One step more each time: whatever a step does, what changes right after it is kept.
  const STEPS = ['copying', 'catching_up', 'shielding', 'shielding', 'swapping', 'dropping', 'peeling', 'peeling']

  test.each([[0, 'nothing'], ...STEPS.map((step, index) => [index + 1, step])] as [number, string][])(
    'change in every way after %d steps, the last %s, and none is lost or in two states',
    async (steps, last) => {
      const gone = await jobIn(store, 'succeeded', { type: 'gone' })
      const [again, discarded] = [await jobIn(store, 'dead'), await jobIn(store, 'dead')]
      const running = await startJob(store, { type: 'running' })
      const ids = {
        running: running.id,
        failing: await enqueueJob(store, { type: 'failing' }),
        dying: await enqueueJob(store, { type: 'dying' }),
        updated: await enqueueJob(store, { type: 'waits' }),
        cancelled: await enqueueJob(store, { type: 'waits' }),
        scheduled: await jobIn(store, 'scheduled', { type: 'waits' }),
        blocked: await enqueueJob(store, { after: [running.id], type: 'waits' }),
        dead: again,
        discarded,
        late: idAt(START_MS + 1),
      }
      await clock.advance(5 * DAY_MS)

      const seen: string[] = []
      for (let step = 0; step < steps; step++) seen.push(await closeStep())
      expect(seen.at(-1) ?? 'nothing').toBe(last)
      await changeAll(ids, running)
      await pruneUntilDone()

      expect(await broken()).toEqual([])
      const states = Object.fromEntries(
        await Promise.all(Object.entries(ids).map(async ([name, id]) => [name, await stateOf(store, id)])),
      )
      expect(states).toEqual({
        running: 'succeeded',
        failing: 'retrying',
        dying: 'dead',
        updated: 'ready',
        cancelled: 'cancelled',
        scheduled: 'cancelled',
        dead: 'ready',
        discarded: 'cancelled',
        blocked: 'ready',
        late: 'ready',
      })
      expect(await store.get(gone)).toBe(null)
      expect(await store.get(ids.running)).toMatchObject({ progress: 2, logs: [{ text: 'early' }, { text: 'late' }] })
      expect(await store.get(ids.updated)).toMatchObject({ payload: { n: 2 }, priority: 7 })
      expect(await store.get(ids.failing)).toMatchObject({ attempts: [{ attempt: 1 }] })
      expect((await tables()).filter((table) => table.includes('_20260301'))).toEqual([])
      expect([await count('closing_days'), await count('closing_slices')]).toEqual([0, 0])
    },
    60_000,
  )

  test('run, fail, are cancelled, changed and requeued all the while, and none is lost or in two states', async () => {
    const ids: string[] = []
    for (let day = 0; day < 4; day++) {
      const jobs = Array.from({ length: 150 }, () => newJob({ id: idAt(START_MS + day * DAY_MS) }))
      await store.enqueue(jobs)
      ids.push(...jobs.map(({ id }) => id))
    }
    await clock.advance(10 * DAY_MS)
    const peer = await openPeerStore(url, schema, clock)
    const mind = { isPruning: true, turns: 0 }

    const working = (async () => {
      while (mind.isPruning || mind.turns < 20) {
        mind.turns++
        const claimed = await claimJobs(peer, { limit: 30, leaseMs: 60 * DAY_MS })
        await peer.note(claimed.map((job) => newNote(job, { progress: '1', logs: [{ atMs: START_MS, text: 'x' }] })))
        await peer.settle(claimed.map((job, n) => [succeeded, retrying, dead, released][n % 4]!(job as never)))
        await peer.promote(100)
      }
    })()
    const operating = (async () => {
      while (mind.isPruning || mind.turns < 20) {
        const some = Array.from({ length: 5 }, (_, n) => ids[(mind.turns * 31 + n * 97) % ids.length]!)
        await store.update(some[0]!, { payload: '{"n":2}', priority: mind.turns % 9 }, OPERATOR)
        await store.cancel([some[1]!], OPERATOR)
        await store.requeue(some, OPERATOR)
        await store.enqueue(some.map((id) => newJob({ id })))
      }
    })()
    await pruneUntilDone()
    mind.isPruning = false
    await Promise.all([working, operating])

    expect(await broken()).toEqual([])
    expect(await count('jobs')).toBe(ids.length)
    expect((await tables()).filter((table) => /_2026030[1-4]/.test(table))).toEqual([])
  }, 120_000)

  async function changeAll(ids: Readonly<Record<string, string>>, running: ClaimedJob): Promise<void> {
    await store.note([newNote(running, { progress: '1', logs: [{ atMs: START_MS, text: 'early' }] })])
    await store.note([newNote(running, { progress: '2', logs: [{ atMs: START_MS, text: 'late' }] })])
    await store.settle([succeeded(running)])
    const failing = await claimJob(store, { types: ['failing'] })
    await store.settle([retrying(failing, 30 * DAY_MS)])
    const dying = await claimJob(store, { types: ['dying'] })
    await store.settle([dead(dying)])
    await store.update(ids.updated!, { payload: '{"n":2}', priority: 7 }, OPERATOR)
    await store.cancel([ids.cancelled!, ids.scheduled!], OPERATOR)
    await store.requeue([ids.dead!], OPERATOR)
    await store.discard([ids.discarded!], OPERATOR)
    // Written by an earlier try whose answer was lost, and one that comes very late.
    await store.enqueue([newJob({ id: ids.updated!, type: 'waits' }), newJob({ id: ids.late!, type: 'waits' })])
  }
})
