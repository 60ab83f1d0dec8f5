// ctx.complete(tx) over an outbox: the transaction decides, whatever becomes of the lease and of Redis meanwhile.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import type { Store } from '../../src/core/store.js'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { outboxStore } from '../../src/stores/outbox/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { crashed, DAY_MS, retrying, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJob, claimJobs, enqueueJob, stateOf } from '../../src/testing/store-suite/steps.js'
import { testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'

const schema = `completions_${process.pid}`
const charge = defineJob('charge', { queue: 'email', maxAttempts: 3, retry: { backoff: 'fixed', base: '10ms' } })

let server: RedisServer
let pool: pg.Pool
let store: Store
const clients: pg.PoolClient[] = []

beforeAll(async () => {
  server = await openRedis()
  pool = new pg.Pool({ connectionString: testServerUrl() })
})
afterAll(async () => {
  await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
  await pool.end()
  await server.close()
})
beforeEach(async () => {
  server.empty()
  store = await openStore()
})
afterEach(async () => {
  for (const client of clients.splice(0)) client.release(true)
  await store.close()
})

async function openStore(): Promise<Store> {
  return outboxStore(await redisStore(server.url), testServerUrl(), { schema, retentionMs: DAY_MS })
}

async function begin(): Promise<pg.PoolClient> {
  const client = await pool.connect()
  clients.push(client)
  await client.query('BEGIN')
  return client
}

async function dispatch(of: Store): Promise<void> {
  while (!(await of.outbox!.dispatch()).isDone);
}

test('a completion that commits settles the job, and one that is rolled back does not', async () => {
  const [kept, undone] = [await startOne(), await startOne()]
  const [first, second] = [await begin(), await begin()]

  await store.settle([succeeded(kept, { result: '"charged"' })], { tx: first })
  await store.settle([succeeded(undone)], { tx: second })
  await first.query('COMMIT')
  await second.query('ROLLBACK')

  expect((await store.watch([kept])).settled).toEqual([expect.objectContaining({ id: kept.id })])
  expect(await store.get(kept.id)).toMatchObject({ state: 'succeeded', result: 'charged' })
  expect((await store.watch([undone])).lost).toEqual([])
  expect(await stateOf(store, undone.id)).toBe('running')
})

test('while its transaction is open, a job is not rescued though its lease has run out, and then it has succeeded', async () => {
  const job = await startOne(50)
  const tx = await begin()
  await store.settle([succeeded(job)], { tx })
  await sleep(100)
  const peer = await openStore()

  const held = await peer.settle([crashed(job)], { onlyExpired: true })
  await tx.query('COMMIT')
  const rescued = await peer.settle([crashed(job)], { onlyExpired: true })

  expect(held).toMatchObject([{ result: 'locked' }])
  expect(rescued).toMatchObject([{ result: 'settled', state: 'succeeded' }])
  await peer.close()
})

test('a job that was completed is settled, not run, when Redis gives it out again', async () => {
  const job = await startOne(50)
  const tx = await begin()
  await store.settle([succeeded(job, { result: '1' })], { tx })
  await sleep(100)
  // Another worker's rescue, of a process that knows no outbox.
  const plain = await redisStore(server.url)
  await plain.settle([retrying(job, 0)], { onlyExpired: true })
  await plain.promote(10)
  await tx.query('COMMIT')

  const jobs = await claimJobs(store)

  expect(jobs).toEqual([])
  expect(await store.get(job.id)).toMatchObject({ state: 'succeeded', result: 1 })
  await plain.close()
})

test('of two runs that complete one job, the first to commit has done it and the other is told that it lost', async () => {
  const job = await startOne(50)
  const [first, second] = [await begin(), await begin()]
  await store.settle([succeeded(job)], { tx: first })
  await sleep(100)
  const plain = await redisStore(server.url)
  await plain.settle([retrying(job, 0)], { onlyExpired: true })
  await plain.promote(10)
  const again = await claimJob(plain)

  const late = store.settle([succeeded(again)], { tx: second })
  await first.query('COMMIT')

  expect(await late).toMatchObject([{ id: job.id, result: 'lost' }])
  await plain.close()
})

test('a completion of a lost lease is refused', async () => {
  const job = await startOne()
  const tx = await begin()

  const answer = await store.settle([succeeded({ ...job, fence: job.fence - 1 })], { tx })

  expect(answer).toMatchObject([{ result: 'lost' }])
})

test('completions that wait are dispatched, and what comes after the job becomes ready', async () => {
  const job = await startOne()
  const child = await enqueueJob(store, { after: [job.id] })
  const tx = await begin()
  await store.settle([succeeded(job)], { tx })
  await tx.query('COMMIT')

  const peer = await openStore()
  await dispatch(peer)

  expect(await stateOf(store, job.id)).toBe('succeeded')
  await store.promote(10)
  expect(await stateOf(store, child)).toBe('ready')
  await peer.close()
})

test('a handler that completes its job runs once, though Redis then forgets the claim', async () => {
  const lossy = await openRedis()
  const options = { outbox: testServerUrl(), schema }
  const holdfast = await connect(lossy.url, options)
  await pool.query(`CREATE TABLE IF NOT EXISTS "${schema}".charges (id uuid)`)
  const job = await holdfast.enqueue(charge, {})
  lossy.snapshot()
  let runs = 0
  const handler = charge.handle(async (_, ctx) => {
    runs++
    const tx = await begin()
    await tx.query(`INSERT INTO "${schema}".charges VALUES ($1)`, [ctx.id])
    const done = await ctx.complete(tx, { charged: true })
    await tx.query('COMMIT')
    return done
  })
  const worker = holdfast.worker({ queues: ['email'], handlers: [handler] })
  worker.start()
  await holdfast.wait(job.id, { timeout: '10s' })
  await worker.stop()

  await lossy.kill()
  await lossy.start()
  const second: Holdfast = await connect(lossy.url, options)
  expect((await second.get(job.id))?.state).toBe('ready')
  const again = second.worker({ queues: ['email'], handlers: [handler] })
  again.start()

  expect(await second.wait(job.id, { timeout: '10s' })).toEqual({ charged: true })
  expect(runs).toBe(1)
  expect((await pool.query(`SELECT FROM "${schema}".charges`)).rowCount).toBe(1)
  await Promise.all([holdfast.close(), second.close()])
  await lossy.close()
})

test('a deleted job takes its completion with it', async () => {
  const job = await startOne()
  const tx = await begin()
  await store.settle([succeeded(job, { result: '"secret"' })], { tx })
  await tx.query('COMMIT')
  await dispatch(store)

  const answer = await store.delete([job.id], 'ada')

  expect(answer).toEqual([{ id: job.id, result: 'deleted' }])
  expect((await pool.query(`SELECT FROM "${schema}".outbox_completions WHERE id = $1`, [job.id])).rowCount).toBe(0)
})

async function startOne(leaseMs = 30_000) {
  await enqueueJob(store)
  return claimJob(store, { leaseMs })
}
