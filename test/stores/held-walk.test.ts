// Settings of a queue in which 200,000 jobs wait: claims and enqueues go on while they are applied, and a process that dies leaves nothing.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { inGroup, setFlow } from '../../src/testing/store-suite/flow-samples.js'
import { newJob, OPERATOR, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs } from '../../src/testing/store-suite/steps.js'
import { testServerUrl } from '../support/postgres.js'

const schema = `held_walk_${process.pid}`
const JOBS = 200_000
const GROUPS = 2_000
const STEP = 500
const LATER_MS = 240_000

describe(`a queue in which ${JOBS} jobs of groups wait`, () => {
  let sql: pg.Client
  let store: Store
  let peer: Store
  let queues = 0

  beforeAll(async () => {
    store = await postgresStore(testServerUrl(), { schema })
    peer = await postgresStore(testServerUrl(), { schema })
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
  }, LATER_MS)
  afterAll(async () => {
    await Promise.all([store.close(), peer.close()])
    await sql.query(`DROP SCHEMA ${schema} CASCADE`)
    await sql.end()
  })

  /** Fills a queue: every third job has a priority, and every seventh has come back from a time, before its own place. */
  async function fill(count: number): Promise<string> {
    const queue = `q${++queues}`
    await store.enqueue([newJob({ queue, ...inGroup('first') })])
    await sql.query(
      `WITH made AS (
         INSERT INTO ${schema}.jobs (id, created_at, position, priority, version, queue, type, payload, options)
         SELECT ('01a' || lpad(to_hex($3::bigint * 1000000 + n), 29, '0'))::uuid, now(), n * 65536, CASE n % 3 WHEN 0 THEN 5 ELSE 0 END, 1, $1, 'work',
                '{}', json_build_object('flow', json_build_object('group', 'g' || n % $2, 'limits', '[]'::json, 'cost', 1))
           FROM generate_series(1::bigint, $4) AS n
         RETURNING id, position, priority, queue, type
       )
       INSERT INTO ${schema}.held (id, position, since, track, priority, queue, group_name, type)
       SELECT id, CASE WHEN position / 65536 % 7 = 0 THEN position - 4611686018427387904 ELSE position END, now(),
              (SELECT track FROM ${schema}.tracks WHERE tracks.queue = $1), priority, queue, 'g' || position / 65536 % $2, type
         FROM made`,
      [queue, GROUPS, queues, count],
    )
    return queue
  }

  const unsorted = async (queue: string) => {
    const { rows } = await sql.query(
      `SELECT count(*)::integer AS count FROM ${schema}.held JOIN ${schema}.jobs USING (id)
        WHERE held.queue = $1 AND held.group_name <> '' AND (held.priority <> 0 OR held.position <> jobs.position)`,
      [queue],
    )
    return rows[0].count as number
  }

  test('becomes ordered in steps, between which claims and enqueues go on', { timeout: LATER_MS }, async () => {
    const queue = await fill(JOBS)
    let isOver = false
    let claims = 0
    const setting = setFlow(store, { groups: { ordered: true } }, queue).finally(() => {
      isOver = true
    })
    let enqueues = 0
    while (!isOver) {
      const jobs = await claimJobs(peer, { queue, limit: 5 })
      await peer.settle(jobs.map((job) => succeeded(job)))
      await peer.enqueue([newJob({ queue, priority: 9, ...inGroup(`new${enqueues}`) })])
      if (isOver) break
      claims++
      enqueues++
    }
    await setting

    expect(claims).toBeGreaterThan(20)
    expect(await unsorted(queue)).toBe(0)
    const { rows } = await sql.query(`SELECT ordered, in_order, walk FROM ${schema}.flows WHERE queue = $1`, [queue])
    expect(rows).toEqual([{ ordered: true, in_order: true, walk: null }])
  })

  test('is no longer ordered in steps as well, and priorities count again', { timeout: LATER_MS }, async () => {
    const queue = await fill(20_000)
    await setFlow(store, { groups: { ordered: true } }, queue)
    await setFlow(store, {}, queue)

    const { rows } = await sql.query(
      `SELECT count(*)::integer AS count FROM ${schema}.held JOIN ${schema}.jobs USING (id) WHERE held.queue = $1 AND held.priority <> jobs.priority`,
      [queue],
    )
    expect(rows).toEqual([{ count: 0 }])
  })

  test('is sorted no more than a step at a time', { timeout: LATER_MS }, async () => {
    const queue = await fill(5_000)
    await stopAfterFirstStep(queue)
    const left = [await unsorted(queue)]
    for (let isOver = false; !isOver; ) {
      isOver = (await sql.query(`SELECT ${schema}.walk_held($1, $2) AS over`, [queue, STEP])).rows[0].over
      left.push(await unsorted(queue))
    }

    const steps = left.slice(1).map((count, index) => left[index]! - count)
    expect(Math.max(...steps)).toBeLessThanOrEqual(STEP)
    expect(steps.length).toBeGreaterThan(5_000 / STEP)
    expect(left.at(-1)).toBe(0)
  })

  test('goes on as before until it is sorted, and upkeep ends what a process that died began', {
    timeout: LATER_MS,
  }, async () => {
    const queue = await fill(5_000)
    await stopAfterFirstStep(queue)
    const before = await sql.query(`SELECT ordered, in_order, walk FROM ${schema}.flows WHERE queue = $1`, [queue])
    let repaired = 0
    for (let round = 0; round < 100 && (await unsorted(queue)) > 0; round++) {
      repaired += (await peer.promote(10)).repaired ?? 0
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    await peer.promote(10)

    expect(before.rows).toEqual([{ ordered: false, in_order: true, walk: 'sort' }])
    expect([await unsorted(queue), repaired]).toEqual([0, 0])
    const after = await sql.query(`SELECT ordered, walk FROM ${schema}.flows WHERE queue = $1`, [queue])
    expect(after.rows).toEqual([{ ordered: true, walk: null }])
  })

  test('offers every group a slot that a raised concurrency gives, and no group twice', {
    timeout: LATER_MS,
  }, async () => {
    const queue = await fill(3_000)
    await setFlow(store, { groups: { concurrency: 1 } }, queue)
    await setFlow(store, { groups: { concurrency: 2 } }, queue)
    let claimed = 0
    for (let jobs = await claimJobs(peer, { queue }); jobs.length > 0; jobs = await claimJobs(peer, { queue }))
      claimed += jobs.length

    // 1,000 of the groups have two jobs and the others one, and one job was there before.
    expect(claimed).toBe(3_001)
  })

  /** What a process leaves that dies right after the transaction of setQueue. */
  async function stopAfterFirstStep(queue: string): Promise<void> {
    const dying = new pg.Client({ connectionString: testServerUrl() })
    await dying.connect()
    await dying.query(`SELECT FROM ${schema}.flows WHERE queue = $1`, [queue])
    await dying.query(
      `UPDATE ${schema}.flows SET in_order = true, walk = 'sort', walk_track = NULL, walk_group = NULL WHERE queue = $1`,
      [queue],
    )
    await dying.query(`UPDATE ${schema}.queues SET settings = $2 WHERE name = $1`, [queue, '{"limits":{},"flow":{}}'])
    await dying.query(`SELECT ${schema}.walk_held($1, $2)`, [queue, STEP])
    await dying.end()
  }

  test('takes back its settings while it is being sorted', { timeout: LATER_MS }, async () => {
    const queue = await fill(5_000)
    await stopAfterFirstStep(queue)
    await store.setQueue(queue, { limits: {} }, OPERATOR)

    const { rows } = await sql.query(
      `SELECT count(*)::integer AS count FROM ${schema}.held JOIN ${schema}.jobs USING (id) WHERE held.queue = $1 AND held.priority <> jobs.priority`,
      [queue],
    )
    expect(rows).toEqual([{ count: 0 }])
  })
})
