// What a look costs must not grow with what is there: nothing is read from end to end, and large numbers are estimated.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseFilter } from '../../src/core/filter.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { testServerUrl } from '../support/postgres.js'

const schema = `looks_${process.pid}`
const READY = 150_000
const FINISHED = 50_000
const DEAD = 20_000

const FILTERS = [
  ...['', 'state:ready', 'state:ready queue:email', 'state:dead', 'state:dead queue:email', 'state:retrying'],
  ...['state:succeeded', 'state:cancelled', 'state:running,blocked,scheduled', 'queue:email type:work', 'error:boom'],
  ...['payload.n:77', 'created:>1m', 'created:<1m', 'key:none', 'schedule:none', 'fingerprint:00', 'reason:crashed'],
]

describe('looks at a full store', () => {
  let store: Store
  let sql: pg.Client

  beforeAll(async () => {
    store = await postgresStore(testServerUrl(), { schema })
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
    await fill(sql)
  }, 120_000)

  afterAll(async () => {
    await store.close()
    await sql.query(`DROP SCHEMA ${schema} CASCADE`)
    await sql.end()
  })

  test('counts over the bound are estimated, those of a small queue are exact', async () => {
    const [all, small] = [await store.stats('default'), await store.stats('email')]

    expect(all.isExact).toBe(false)
    expect(Math.abs(all.ready / (READY * 0.9) - 1)).toBeLessThan(0.1)
    expect(small).toMatchObject({ ready: READY / 10, dead: DEAD / 10, isExact: true })
  })

  test('an overview counts few exactly beside many', async () => {
    const { queues, isExact } = await store.overview()

    const [large, small] = queues
    expect([isExact, small!.name, small!.ready]).toEqual([false, 'email', READY / 10])
    expect(Math.abs(large!.ready / (READY * 0.9) - 1)).toBeLessThan(0.1)
  })

  test('when counting takes too long, pages are looked at instead', async () => {
    const looking = await postgresStore(testServerUrl(), { schema })
    // Counting waits for a lock until its time is over; then the lock goes, and the other way is free.
    const locker = new pg.Client({ connectionString: testServerUrl() })
    await locker.connect()
    await locker.query(`BEGIN; LOCK TABLE ${schema}.running IN ACCESS EXCLUSIVE MODE`)
    const looked = looking.stats('email')
    const waits = `
      SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pg_relation_size%"${schema}"%' AND pid <> pg_backend_pid()`
    await expect.poll(async () => (await sql.query(waits)).rowCount, { timeout: 60_000, interval: 20 }).toBe(1)
    await locker.end()

    const { ready, dead, oldestAgeS, isExact } = await looked
    await looking.close()

    expect(isExact).toBe(false)
    expect(Math.abs(ready / (READY * 0.1) - 1)).toBeLessThan(0.2)
    expect(Math.abs(dead / (DEAD * 0.1) - 1)).toBeLessThan(0.2)
    expect(oldestAgeS).toBeGreaterThanOrEqual(0)
  }, 90_000)

  test('a list tells how far it has looked', async () => {
    const page = await store.list({ filter: parseFilter('type:none'), limit: 10, before: null })

    expect(page).toMatchObject({ jobs: [], searched: 5_000 })
    expect(page.searchedTo!.getTime()).toBeLessThan(Date.now())
    expect((await store.list({ filter: {}, limit: 10, before: page.next })).jobs[0]!.id < page.next!).toBe(true)
  })

  test('a count that would take long answers with what it found', async () => {
    const { isExact } = await store.count(parseFilter('payload.n:77'), { max: 100_000 })

    expect(isExact).toBe(false)
  })

  test('groups of dead jobs are counted, those too that died before there were fingerprints, once a sample was taken', async () => {
    await store.sample()

    const groups = await store.deadGroups({ queue: 'email', limit: 10 })

    expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(DEAD / 10)
  })

  test('no look reads a table of jobs from end to end', async () => {
    // A connection has reported what it read when it is gone, so these looks get one of their own.
    const [lookers, before] = [await lookersOf(sql), await scansOf(sql)]
    const looking = await postgresStore(testServerUrl(), { schema })
    for (const text of FILTERS) {
      await looking.list({ filter: parseFilter(text), limit: 50, before: null })
      await looking.count(parseFilter(text), { max: 100_000 })
    }
    for (const queue of [null, 'email']) {
      await looking.stats(queue)
      await looking.deadGroups({ queue, limit: 10 })
      await looking.series({ queue, sinceMs: Date.now() - 60_000, stepMs: 10_000 })
    }
    await looking.overview()
    await looking.sample()
    await looking.audit({ before: null, limit: 10, actor: 'ann' })
    const [job] = (await looking.list({ filter: { states: ['ready'] }, limit: 1, before: null })).jobs
    await looking.standing(job!.id)
    await looking.close()

    expect(job!.queue).toMatch(/default|email/)
    await expect.poll(() => lookersOf(sql), { timeout: 10_000 }).toBe(lookers)
    expect(await scansOf(sql)).toEqual(before)
  }, 60_000)

  test('a look answers within a second', async () => {
    const startMs = performance.now()
    await Promise.all([store.overview(), store.stats(null), store.stats('default')])

    expect(performance.now() - startMs).toBeLessThan(1_000)
  })
})

// Other tests look at other schemas of the same server meanwhile.
async function lookersOf(sql: pg.Client): Promise<number> {
  const text = `
    SELECT FROM pg_stat_activity
     WHERE application_name = ANY ('{holdfast look up jobs,holdfast search jobs,holdfast count jobs}') AND strpos(query, $1) > 0 AND pid <> pg_backend_pid()`
  return (await sql.query(text, [`"${schema}"`])).rowCount ?? 0
}

/** How often each table of jobs was read from end to end. */
async function scansOf(sql: pg.Client): Promise<unknown> {
  const { rows } = await sql.query(
    `SELECT relname, seq_scan
       FROM pg_stat_all_tables
      WHERE schemaname = $1
        AND relname ~ '^(jobs|finished|ready|running|scheduled|blocked|dead|attempts|keys|tallies|samples|audit)'
      ORDER BY relname`,
    [schema],
  )
  return rows
}

/** The id of the job with a number; a larger number is a newer one. */
const ID = (
  number: string,
) => `(overlay(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 600000 + ${number}), 12, '0')
                                         PLACING '-' FROM 9 FOR 0) || '-7000-8000-000000000000')::uuid`

async function fill(sql: pg.Client): Promise<void> {
  const queue = "CASE WHEN n % 10 = 0 THEN 'email' ELSE 'default' END"
  await sql.query('BEGIN')
  await sql.query(`INSERT INTO ${schema}.queues (name) VALUES ('default'), ('email')`)
  await sql.query(`
    INSERT INTO ${schema}.jobs (id, created_at, position, priority, version, queue, type, payload)
    SELECT ${ID('n')}, now(), n * 65536::bigint, 0, 1, ${queue}, 'work', json_build_object('n', -n)
      FROM generate_series(1, ${READY + FINISHED + DEAD}) AS n`)
  await sql.query(`
    INSERT INTO ${schema}.ready (id, position, since, priority, moved, queue, type)
    SELECT ${ID('n')}, n * 65536::bigint, now(), 0, false, ${queue}, 'work'
      FROM generate_series(${FINISHED + DEAD + 1}, ${READY + FINISHED + DEAD}) AS n`)
  await sql.query(`
    INSERT INTO ${schema}.finished (id, finished_at, started_at, fence, attempt, crashes, ending)
    SELECT ${ID('n')}, now(), now(), 1, 1, 0, 'succeeded' FROM generate_series(1, ${FINISHED}) AS n`)
  await sql.query(`
    INSERT INTO ${schema}.dead (id, died_at, fence, priority, attempt, crashes, reason, queue, type, error, fingerprint)
    SELECT ${ID('n')}, now(), 1, 0, 3, 0, 'attempts', ${queue}, 'work',
           json_build_object('name', 'Error', 'message', 'boom ' || n), CASE WHEN n % 50 > 0 THEN 'f' || n % 7 END
      FROM generate_series(${FINISHED + 1}, ${FINISHED + DEAD}) AS n`)
  await sql.query('COMMIT')
}
