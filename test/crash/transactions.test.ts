// Jobs in the caller's transaction, and settlements in the handler's.

import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { Stage } from '../support/stage.js'

const LEASE = { lease: '1s', heartbeat: '300ms' } as const

describe('transactions', () => {
  let stage: Stage
  let sql: pg.Client
  beforeEach(async () => {
    stage = await Stage.open()
    sql = await stage.sql()
  })
  afterEach(() => stage.close())

  test('a job enqueued in a transaction that is rolled back does not exist', async () => {
    await sql.query('BEGIN')
    const { id } = await stage.holdfast.enqueue('work', {}, { tx: sql })
    await sql.query('ROLLBACK')

    expect(await stage.holdfast.get(id)).toBeNull()
  })

  test('a job enqueued in a transaction exists once it commits, and not before', async () => {
    await sql.query('BEGIN')
    const { id } = await stage.holdfast.enqueue('work', {}, { tx: sql })
    const before = await stage.holdfast.get(id)
    await sql.query('COMMIT')

    expect(before).toBeNull()
    expect(await stage.holdfast.get(id)).toMatchObject({ id, state: 'ready' })
  })

  test('enqueueMany and every option work in a transaction', async () => {
    await sql.query('BEGIN')
    const [parent] = await stage.holdfast.enqueueMany([['work', {}]], { tx: sql })
    const [child, timed, keyed] = await stage.holdfast.enqueueMany(
      [
        ['work', {}, { after: parent!.id, tags: ['a,"b\\'] }],
        ['work', {}, { delay: '1h' }],
        ['work', {}, { idempotencyKey: 'k' }],
      ],
      { tx: sql },
    )
    await sql.query('COMMIT')

    expect([parent, child, timed, keyed].map((job) => job!.state)).toEqual(['ready', 'blocked', 'scheduled', 'ready'])
    expect((await stage.holdfast.get(child!.id))?.tags).toEqual(['a,"b\\'])
  })

  test('killed before the commit of complete(tx): no effect, and the job runs again to one effect', async () => {
    const effects = await makeEffects(stage, sql)
    const victim = await stage.startWorker({ worker: LEASE, effects })
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'hang before commit' })
    await victim.next((message) => message.what === 'completed')

    await victim.kill('SIGKILL')
    const effectsAfterKill = (await sql.query(`SELECT * FROM ${effects}`)).rows
    await stage.startWorker({ worker: LEASE, effects })
    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(effectsAfterKill).toEqual([])
    expect((await sql.query(`SELECT job, attempt FROM ${effects}`)).rows).toEqual([{ job: id, attempt: 2 }])
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 2 })
  })

  test('killed after the commit of complete(tx): one effect, and the job is not run again', async () => {
    const effects = await makeEffects(stage, sql)
    const victim = await stage.startWorker({ worker: LEASE, effects })
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'hang after commit' })
    await victim.next((message) => message.what === 'committed')

    await victim.kill('SIGKILL')
    const heir = await stage.startWorker({ worker: LEASE, effects })
    const later = await stage.holdfast.enqueue('work', {})
    await stage.holdfast.wait(later.id, { timeout: '30s' })

    expect((await sql.query(`SELECT job, attempt FROM ${effects}`)).rows).toEqual([{ job: id, attempt: 1 }])
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 })
    expect(heir.messages.filter((message) => message.what === 'began').map((message) => message.id)).toEqual([later.id])
  })

  test('a long transaction of one handler does not cost its neighbours their leases', async () => {
    const effects = await makeEffects(stage, sql)
    const worker = await stage.startWorker({ worker: { ...LEASE, concurrency: 4 }, effects })
    const stuck = await stage.holdfast.enqueue('work', { transaction: 'hang before commit' })
    await worker.next((message) => message.what === 'completed')
    const neighbours = await stage.holdfast.enqueueMany(
      Array.from({ length: 3 }, () => ['work', { sleepMs: 3_000 }] as const),
    )
    await worker.next(() => worker.messages.filter((message) => message.what === 'began').length === 4)
    await stage.startWorker({ worker: LEASE, effects })

    await Promise.all(neighbours.map(({ id }) => stage.holdfast.wait(id, { timeout: '30s' })))

    for (const { id } of neighbours) expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1, attempts: [] })
    expect(await stage.holdfast.get(stuck.id)).toMatchObject({ state: 'running', attempt: 1 })
  }, 40_000)

  test('a handler that fails and leaves its transaction open holds up no other settlement, and is retried when it ends', async () => {
    const work = defineJob<{ fails: boolean }>('work', { retry: { backoff: 'fixed', base: '20ms' } })
    const failed = new Map<number, pg.Client>()
    const handler = work.handle(async ({ fails }, ctx) => {
      if (!fails || ctx.attempt > 1) return
      const client = await stage.sql()
      await client.query('BEGIN')
      await ctx.complete(client)
      failed.set(ctx.attempt, client)
      throw new Error('left its transaction open')
    })
    const worker = stage.holdfast.worker({ handlers: [handler] })
    await worker.start()
    const stuck = await stage.holdfast.enqueue(work, { fails: true })
    await expect.poll(() => failed.size, { timeout: 10_000 }).toBe(1)

    const others = await stage.holdfast.enqueueMany(
      Array.from({ length: 20 }, () => ['work', { fails: false }] as const),
    )
    await Promise.all(others.map(({ id }) => stage.holdfast.wait(id, { timeout: '15s' })))
    const whileOpen = await stage.holdfast.get(stuck.id)
    await failed.get(1)!.query('ROLLBACK')
    await expect.poll(async () => (await stage.holdfast.get(stuck.id))?.state, { timeout: 15_000 }).toBe('retrying')

    expect(whileOpen).toMatchObject({ state: 'running', attempt: 1 })
    expect((await stage.holdfast.get(stuck.id))?.attempts).toMatchObject([
      { error: { message: 'left its transaction open' } },
    ])
    await worker.stop()
  }, 60_000)
})

async function makeEffects(stage: Stage, sql: pg.Client): Promise<string> {
  const name = `${stage.config.schema}.effects`
  await sql.query(`CREATE TABLE ${name} (job uuid NOT NULL, attempt integer NOT NULL)`)
  return name
}
