// Notifications can be sent by anyone who can connect to the database, without a single grant. So they are hints, and no more.

import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { newId, newJob } from '../../src/testing/store-suite/samples.js'
import type { Worker } from '../../src/worker/worker.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'
import { gate, openStage, type Stage, whenAborted, work } from '../worker/stage.js'

const schema = `notified_${process.pid}`
const stranger = `stranger_${process.pid}`
const CHANNEL = `holdfast ${schema}`
const FLOOD = 2_000

describe('notifications of a role without any grant', { timeout: 30_000 }, () => {
  let looks: number
  let sql: pg.Client
  let hostile: pg.Client
  let stage: Stage
  let store: Store
  let worker: Worker
  let heard: string[]
  let unlisten: () => void

  beforeAll(async () => {
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
    await sql.query(`CREATE ROLE ${stranger} LOGIN`)
    hostile = new pg.Client({ connectionString: testServerUrl().replace('holdfast@', `${stranger}@`) })
    await hostile.connect()
  })

  afterAll(async () => {
    await hostile.end()
    await sql.query(`DROP ROLE ${stranger}`)
    await sql.end()
    await dropSchema(testServerUrl(), schema)
  })

  beforeEach(async () => {
    stage = openStage()
    const real = await openCleanStore(testServerUrl(), schema, stage.clock)
    looks = 0
    store = {
      ...real,
      watch: (leases) => {
        looks++
        return real.watch(leases)
      },
    }
    heard = []
    let isListening = false
    const ready = (queue: string) => {
      isListening ||= queue === 'probe'
    }
    unlisten = store.listen({ cancel: (id) => heard.push(id), ready })
    await expect
      .poll(async () => {
        await forge(['r probe'])
        return isListening
      })
      .toBe(true)
  })

  afterEach(async () => {
    unlisten()
    const stopping = worker.stop({ drain: 0 })
    await stage.clock.advance(10_000)
    await stopping
  })

  test('do not cancel a running job: the store is asked', async () => {
    const { id, signal } = await startJob()

    await forge([`c ${id}`])
    await expect.poll(() => looks > 0 || signal.aborted).toBe(true)
    await stage.clock.advance(0)

    expect(signal.aborted).toBe(false)
    expect(await store.get(id)).toMatchObject({ state: 'running' })
  })

  test('cost the store at most ten queries a second, however many cancels are forged', async () => {
    const { id, signal } = await startJob()

    await forge([`c ${id}`])
    await expect.poll(() => looks).toBe(1)
    await forge([...Array.from({ length: FLOOD }, () => `c ${newId()}`), `c ${id}`])
    await expect.poll(() => heard.length).toBe(FLOOD + 2)
    await stage.clock.advance(99)
    const before = looks
    await stage.clock.advance(1)
    await expect.poll(() => looks).toBe(2)

    expect(before).toBe(1)
    expect(signal.aborted).toBe(false)
  })

  test('do not hide a real cancel from the job', async () => {
    const { id, signal } = await startJob()
    await forge([`c ${id}`, ...Array.from({ length: FLOOD }, () => `c ${newId()}`)])
    await expect.poll(() => heard.length).toBe(FLOOD + 1)

    await store.cancel([id], 'ada')
    await stage.clock.advance(100)
    await expect.poll(() => signal.aborted).toBe(true)

    expect(signal.reason).toMatchObject({ code: 'job_cancelled' })
  })

  async function startJob() {
    const started = gate<{ id: string; signal: AbortSignal }>()
    worker = stage.worker(
      {
        handlers: [
          work(async (_payload, ctx) => {
            started.open({ id: ctx.id, signal: ctx.signal })
            await whenAborted(ctx.signal)
          }),
        ],
      },
      store,
    )
    await store.enqueue([newJob({ queue: 'default', type: 'work' })])
    await worker.start()
    return started.promise
  }

  async function forge(messages: readonly string[]): Promise<void> {
    await hostile.query('SELECT pg_notify($1, $2 || message) FROM unnest($3::text[]) AS message', [
      CHANNEL,
      'x ',
      messages,
    ])
  }
})
