// The outbox in front of a Redis Cluster and of a primary that sentinels watch.

import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WatchedRedis } from '../../lab/servers/redis-sentinel.js'
import type { Store } from '../../src/core/store.js'
import { outboxStore } from '../../src/stores/outbox/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { DAY_MS, newJob, newJobs } from '../../src/testing/store-suite/samples.js'
import { codeOf, statesOf } from '../../src/testing/store-suite/steps.js'
import { testServerUrl } from '../support/postgres.js'
import { openRedisCluster } from '../support/redis-cluster.js'

let pool: pg.Pool
let schemas = 0

beforeAll(() => {
  pool = new pg.Pool({ connectionString: testServerUrl() })
})
afterAll(() => pool.end())

async function withOutbox(url: string, work: (store: Store) => Promise<void>): Promise<void> {
  const schema = `outbox_servers_${process.pid}_${++schemas}`
  const store = await outboxStore(await redisStore(url), testServerUrl(), { schema, retentionMs: DAY_MS })
  try {
    await work(store)
  } finally {
    await store.close()
    await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
  }
}

async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const result = await work(client)
    await client.query('COMMIT')
    return result
  } finally {
    client.release(true)
  }
}

async function dispatch(store: Store): Promise<void> {
  await expect
    .poll(async () => (await store.outbox!.dispatch()).isDone && (await store.health()).outbox?.waiting, {
      timeout: 30_000,
      interval: 100,
    })
    .toBe(0)
}

test('in a cluster each job goes to the shard of its queue, and chains over shards hold', {
  timeout: 60_000,
}, async () => {
  const cluster = await openRedisCluster()
  await withOutbox(cluster.url, async (store) => {
    const parent = newJob({ queue: 'first' })
    const others = ['a', 'b', 'c', 'd', 'e', 'f'].map((queue) => newJob({ queue, after: [parent.id] }))

    const grouped = newJob({ flow: { group: 'acme', limits: [], cost: 1 } })

    await inTransaction((tx) => store.enqueue([parent, ...others, grouped], { tx }))
    await dispatch(store)

    expect(await statesOf(store, [grouped.id])).toEqual(['ready'])
    expect(await statesOf(store, [parent.id, ...others.map(({ id }) => id)])).toEqual([
      'ready',
      ...others.map(() => 'blocked'),
    ])
  })
  await cluster.close()
})

test('after a failover by sentinels what was sent is sent again', { timeout: 90_000 }, async () => {
  const watched = (await WatchedRedis.open())!
  await withOutbox(watched.url, async (store) => {
    const jobs = newJobs(20)
    await inTransaction((tx) => store.enqueue(jobs, { tx }))
    await dispatch(store)
    const repeats: number[] = []
    store.reportTo!((event) => event.name === 'outbox.sent' && repeats.push(event.repeated))

    await watched.primary.kill()
    await expect.poll(() => codeOf(store.outbox!.dispatch()), { timeout: 40_000, interval: 200 }).toBe(null)

    await expect.poll(() => store.outbox!.dispatch().then(() => repeats), { timeout: 20_000 }).toEqual([20])
    expect(
      await statesOf(
        store,
        jobs.map(({ id }) => id),
      ),
    ).toEqual(jobs.map(() => 'ready'))
  })
  await watched.close()
})
