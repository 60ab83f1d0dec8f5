// A process that sends an outbox is killed between every two steps: each job arrives once, whoever sends the rest.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { STEPS } from '../../lab/experiments/outbox-steps.js'
import type { RedisServer } from '../../lab/servers/redis.js'
import type { Store } from '../../src/core/store.js'
import { outboxStore } from '../../src/stores/outbox/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { DAY_MS, newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs, statesOf } from '../../src/testing/store-suite/steps.js'
import { testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'

const CHILD = fileURLToPath(new URL('../fixtures/outbox-sender.ts', import.meta.url))
const schema = `crashes_${process.pid}`

let server: RedisServer
let pool: pg.Pool
let store: Store

beforeAll(async () => {
  server = await openRedis()
  pool = new pg.Pool({ connectionString: testServerUrl() })
  store = await outboxStore(await redisStore(server.url), testServerUrl(), { schema, retentionMs: DAY_MS })
})
afterAll(async () => {
  await store.close()
  await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
  await pool.end()
  await server.close()
})
beforeEach(async () => {
  await pool.query(`DELETE FROM "${schema}".outbox; DELETE FROM "${schema}".outbox_completions`)
})

/** Sends until it dies at the step. */
async function sendAndDie(step: string): Promise<NodeJS.Signals | null> {
  const assignment = { redis: server.url, postgres: testServerUrl(), schema, step }
  const child = fork(CHILD, [JSON.stringify(assignment)], { execArgv: ['--import', 'tsx'], stdio: 'inherit' })
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  return signal
}

/** The server may need a moment to notice that the sender is gone, and its rows stay locked until then. */
async function sendTheRest(): Promise<void> {
  const waiting = async () => {
    await store.outbox!.dispatch()
    return (await store.health()).outbox?.waiting
  }
  await expect.poll(waiting, { timeout: 10_000, interval: 50 }).toBe(0)
}

async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  await client.query('BEGIN')
  const result = await work(client)
  await client.query('COMMIT')
  client.release()
  return result
}

test.each(STEPS)('a sender that dies when it is at "%s" loses nothing and doubles nothing', async (step) => {
  const queue = `q-${STEPS.indexOf(step)}`
  const isCompletion = step.startsWith('completion')
  const jobs = newJobs(3, { queue })
  if (isCompletion) {
    await store.enqueue(jobs)
    const claimed = await claimJobs(store, { queue })
    await inTransaction((tx) =>
      store.settle(
        claimed.map((job) => succeeded(job)),
        { tx },
      ),
    )
  } else await inTransaction((tx) => store.enqueue(jobs, { tx }))

  const signal = await sendAndDie(step)
  await sendTheRest()

  expect(signal).toBe('SIGKILL')
  const ids = jobs.map(({ id }) => id)
  expect(await statesOf(store, ids)).toEqual(ids.map(() => (isCompletion ? 'succeeded' : 'ready')))
  if (!isCompletion) expect((await claimJobs(store, { queue })).map(({ id }) => id)).toEqual(ids)
  expect(await claimJobs(store, { queue })).toEqual([])
})
