// Rows that should not be there, written by a hand or a bug: the claims of their queue go on, and they are removed with an audit line.

import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { dead, newId, newJob, QUEUE, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJob } from '../../src/testing/store-suite/steps.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `strays_${process.pid}`
const HOSTILE = `INSERT INTO ${schema}.ready (id, position, since, priority, moved, queue, type, attempt, fence)`

let store: Store
let sql: pg.Client

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url })
  await sql.connect()
})

beforeEach(async () => {
  store = await openCleanStore(url, schema, manualClock())
})

afterAll(async () => {
  await sql.end()
  await dropSchema(url, schema)
})

describe('a row in ready', () => {
  test('of a job that is running does not stop the claims of its queue', async () => {
    const running = await start()
    await insertReady(running.id)

    const next = await enqueue()

    expect(await claimIds(store)).toEqual([next])
    await expectRemoved(running.id, 'running')
    expect(await store.get(running.id)).toMatchObject({ state: 'running', attempt: 1 })
  })

  test('that is there twice is claimed once', async () => {
    const id = await enqueue()
    await sql.query(
      `${HOSTILE} SELECT id, position, since, priority, moved, queue, type, attempt, fence FROM ${schema}.ready`,
    )

    expect(await claimIds(store)).toEqual([id])
    await expectRemoved(id, 'twice')
  })

  test('of a job that does not exist is removed', async () => {
    const id = newId()
    await insertReady(id)
    const next = await enqueue()

    expect(await claimIds(store)).toEqual([next])
    await expectRemoved(id, 'no job')
    expect((await sql.query(`SELECT FROM ${schema}.running WHERE id = $1`, [id])).rowCount).toBe(0)
  })

  test('with numbers that cannot be counted on is removed', async () => {
    const id = newId()
    await insertReady(id, { attempt: 32_767, fence: '9223372036854775807' })
    const next = await enqueue()

    expect(await claimIds(store)).toEqual([next])
  })

  test('of jobs that have ended goes together with those that stop claims', async () => {
    const running = await start()
    const [done, died] = [await start(), await start()]
    await store.settle([succeeded(done), dead(died)])
    for (const { id } of [running, done, died]) await insertReady(id)

    expect(await claimIds(store)).toEqual([])
    await expectRemoved(done.id, 'finished')
    await expectRemoved(died.id, 'dead')
  })

  test('many of them are removed while the jobs between them are claimed', async () => {
    const running = await start()
    const ids: string[] = []
    for (let n = 0; n < 5; n++) {
      ids.push(await enqueue())
      for (let copies = 0; copies < 60; copies++) await insertReady(running.id)
    }

    expect((await claimIds(store, { limit: 10 })).sort()).toEqual(ids.sort())
  })
})

async function enqueue(changes: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(changes)
  await store.enqueue([job])
  return job.id
}

async function start() {
  await enqueue()
  return claimJob(store)
}

async function insertReady(id: string, { attempt = null as number | null, fence = null as string | null } = {}) {
  await sql.query(`${HOSTILE} VALUES ($1, 1, now(), 0, false, $2, 'send_email', $3, $4)`, [id, QUEUE, attempt, fence])
}

async function expectRemoved(id: string, why: string): Promise<void> {
  const { entries } = await store.audit({ before: null, limit: 10, job: id, action: 'remove_stray' })
  expect(entries).toMatchObject([{ actor: 'holdfast', details: { why } }])
  expect((await sql.query(`SELECT FROM ${schema}.ready WHERE id = $1`, [id])).rowCount).toBe(0)
}
