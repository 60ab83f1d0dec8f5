// An idempotency key that somebody's open transaction is writing: only who asks for that key waits. In each of these the transaction
// stays open while the others' calls are made and awaited; one that waited for it would fail at its deadline.

import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { TestServer } from '../server/support.js'
import { SERVERS, testServerUrl } from '../support/postgres.js'
import { failure, gate } from './support.js'

const schema = `held_keys_${process.pid}`
const LATER_MS = 60_000

for (const [server, urlOf] of SERVERS) {
  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(
    `a key in somebody's open transaction, on ${server}`,
    { timeout: LATER_MS },
    () => {
      let holdfast: Holdfast
      let tx: pg.Client

      beforeAll(async () => {
        holdfast = await connect(urlOf()!, { schema, upkeep: false, enqueueTimeout: '10s' })
      })
      beforeEach(async () => {
        tx = new pg.Client({ connectionString: urlOf()! })
        await tx.connect()
        await tx.query('BEGIN')
      })
      afterEach(() => tx.end())
      afterAll(async () => {
        await holdfast.close()
        const sql = new pg.Client({ connectionString: urlOf()! })
        await sql.connect()
        await sql.query(`DROP SCHEMA ${schema} CASCADE`)
        await sql.end()
      })

      const keyed = (key: string, queue = 'x') => holdfast.enqueue('a', null, { queue, idempotencyKey: key })
      const many = (count: number, name: string) => Array.from({ length: count }, (_, n) => `${name} ${n}`)

      test('keeps those waiting who ask for it, and nobody else', async () => {
        const held = await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'one', tx })
        const waiting = keyed('one')
        const beside = keyed('beside one')

        const others = await Promise.all([beside, keyed('other'), keyed('one', 'y')])
        const later = [
          await keyed('later'),
          await keyed('later', 'y'),
          await holdfast.enqueue('a', null, { queue: 'x' }),
        ]
        await tx.query('COMMIT')

        expect([...others, ...later].map(({ created }) => created)).toEqual(Array(6).fill(true))
        expect(await waiting).toEqual({ id: held.id, created: false, state: 'ready' })
      })

      test('is taken by the first who waits once it was rolled back', async () => {
        const held = await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'two', tx })
        const waiting = [keyed('two'), keyed('two'), keyed('two')]
        await keyed('beside two')
        const late = keyed('two')
        await tx.query('ROLLBACK')

        const answers = await Promise.all([...waiting, late])

        expect(answers.filter(({ created }) => created)).toHaveLength(1)
        expect(new Set(answers.map(({ id }) => id)).size).toBe(1)
        expect(answers[0]!.id).not.toBe(held.id)
      })

      test('fails who waits too long with an error that names it', async () => {
        await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'three', tx })

        const hasty = await connect(urlOf()!, { schema, upkeep: false, enqueueTimeout: '1s' })

        const error = await failure(hasty.enqueue('a', null, { queue: 'x', idempotencyKey: 'three' }))
        await hasty.close()

        expect(error).toMatchObject({ code: 'store_unavailable', retryable: true, details: { written: 'no' } })
        expect(error.message).toContain(
          'idempotency key "three" in queue "x" is held by a transaction that has not ended',
        )
      })

      test('is waited for no longer once the caller aborts', async () => {
        await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'four', tx })
        const control = new AbortController()
        const waiting = failure(
          holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'four', signal: control.signal }),
        )
        await keyed('beside four')
        control.abort()

        expect(await waiting).toMatchObject({ code: 'aborted' })
      })

      test('keeps waiting the enqueueMany that has it, as a whole, and nobody else', async () => {
        await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'five', tx })
        const waiting = holdfast.enqueueMany([
          ['a', null, { queue: 'x', idempotencyKey: 'five' }],
          ['a', null, { queue: 'x', idempotencyKey: 'with five' }],
        ])

        const others = []
        for (const key of many(5, 'beside five')) others.push(await keyed(key))
        const neighbour = await keyed('with five')
        await tx.query('COMMIT')
        const answers = await waiting

        expect(others.every(({ created }) => created)).toBe(true)
        expect(neighbour.created).toBe(true)
        expect(answers.map(({ created }) => created)).toEqual([false, false])
      })

      const manyKeyed = (queue: Holdfast, ...keys: readonly string[]) =>
        queue.enqueueMany(keys.map((key) => ['a', null, { queue: 'x', idempotencyKey: key }] as const))

      test('keeps no stranger waiting, however many enqueueMany calls name it', async () => {
        const held = await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'seven', tx })
        const first = manyKeyed(holdfast, 'seven')
        await manyKeyed(holdfast, 'beside seven')
        // Each that asked on the connection for keys would hold it for 50 ms.
        const later = many(300, 'with seven').map((key) => manyKeyed(holdfast, key, 'seven'))

        const stranger = await keyed('a stranger to seven')
        const [other] = await manyKeyed(holdfast, 'another stranger to seven')
        await tx.query('COMMIT')
        const answers = await Promise.all([first, ...later])

        expect([stranger.created, other?.created]).toEqual([true, true])
        expect(answers.map((all) => all.at(-1))).toEqual(
          answers.map(() => ({ id: held.id, created: false, state: 'ready' })),
        )
      })

      test('keeps an enqueueMany waiting no longer than its deadline, and it knows that nothing was written', async () => {
        await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'eight', tx })
        const hasty = await connect(urlOf()!, { schema, upkeep: false, enqueueTimeout: '1s' })
        await hasty.enqueue('a', null, { queue: 'x', idempotencyKey: `connected to ${server}` })
        const startedMs = performance.now()

        const errors = await Promise.all(many(200, 'with eight').map((key) => failure(manyKeyed(hasty, key, 'eight'))))
        const tookMs = performance.now() - startedMs
        await hasty.close()
        await tx.query('ROLLBACK')
        const { created } = await keyed('with eight 0')

        expect(tookMs).toBeLessThan(4_000)
        expect(new Set(errors.map(({ code, details }) => `${code} ${details.written}`))).toEqual(
          new Set(['store_unavailable no']),
        )
        expect(created).toBe(true)
      })

      test('is waited for by close() when an enqueueMany names it, which is answered first', async () => {
        await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'nine', tx })
        const closing = await connect(urlOf()!, { schema, upkeep: false, enqueueTimeout: '10s' })
        const waiting = manyKeyed(closing, 'nine', 'with nine')
        await manyKeyed(closing, 'beside nine')
        const closed = closing.close()
        await keyed('after nine')
        await tx.query('ROLLBACK')

        expect((await waiting).map(({ created }) => created)).toEqual([true, true])
        await closed
      })

      test('is none where a handler’s open transaction completes the job that has it: that job has it still', async () => {
        const queue = `ten_${server}`.replaceAll(' ', '_')
        const handlerTx = new pg.Client({ connectionString: urlOf()! })
        await handlerTx.connect()
        const completed = gate()
        const commit = gate()
        const handler = defineJob('completes', { queue }).handle(async (_, ctx) => {
          await handlerTx.query('BEGIN')
          await ctx.complete(handlerTx)
          completed.open()
          await commit.opened
          await handlerTx.query('COMMIT')
        })
        const worker = holdfast.worker({ queues: [queue], handlers: [handler] })
        await worker.start()
        const running = await holdfast.enqueue('completes', null, { queue, idempotencyKey: 'ten' })
        await completed.opened
        await holdfast.enqueue('a', null, { queue: 'x', idempotencyKey: 'eleven', tx })

        const held = keyed('eleven')
        const beside = await keyed('ten', queue)
        const later = await keyed('ten', queue)
        await tx.query('ROLLBACK')
        commit.open()
        await worker.stop()
        await handlerTx.end()

        expect([beside, later]).toEqual(Array(2).fill({ id: running.id, created: false, state: 'running' }))
        expect((await held).created).toBe(true)
      })

      test('keeps a dead job with it from being requeued, and the error says why', async () => {
        const queue = `dead_${server}`.replaceAll(' ', '_')
        const handler = defineJob('dies', { queue }).handle(() => Promise.reject(new Error('no')))
        const worker = holdfast.worker({ queues: [queue], handlers: [handler] })
        await worker.start()
        const { id } = await holdfast.enqueue('dies', null, { queue, idempotencyKey: 'six', maxAttempts: 1 })
        await failure(holdfast.wait(id))
        await worker.stop()
        await holdfast.enqueue('a', null, { queue, idempotencyKey: 'six', tx })

        const error = await failure(holdfast.requeue(id))
        const many = await holdfast.requeue({ filter: { queue } })
        await tx.query('ROLLBACK')
        const { requeues } = await holdfast.requeue(id)

        expect(error).toMatchObject({ code: 'key_conflict', retryable: true, details: { id, heldBy: null } })
        expect(error.message).toContain('a transaction that has not ended holds its idempotency key')
        expect(many).toMatchObject({ requeued: 0, refused: [{ id, state: 'dead', heldBy: null }] })
        expect(requeues).toBe(1)
      })

      test('may have a thousand others beside it: they are waited for, and strangers are not kept', async () => {
        const keys = many(1_000, 'thousand')
        const entries = keys.map((key) => ['a', null, { queue: 'x', idempotencyKey: key }] as const)
        const held = await holdfast.enqueueMany(entries, { tx })
        const waiting = Promise.all(keys.map((key) => keyed(key)))

        const others = await Promise.all([keyed('beside thousand'), keyed('beside thousand', 'y')])
        for (const key of many(5, 'after thousand')) await keyed(key, 'y')
        const { rows } = await tx.query(
          `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE application_name LIKE 'holdfast %' AND wait_event_type = 'Lock'`,
        )
        await tx.query('COMMIT')

        expect(others.map(({ created }) => created)).toEqual([true, true])
        expect(rows[0].count).toBeLessThanOrEqual(2)
        expect((await waiting).map(({ id, created }) => ({ id, created }))).toEqual(
          held.map(({ id }) => ({ id, created: false })),
        )
      })
    },
  )
}

describe('a key in an open transaction of a tenant, over HTTP', { timeout: LATER_MS }, () => {
  const httpSchema = `${schema}_http`
  let server: TestServer
  let tx: pg.Client

  beforeAll(async () => {
    tx = new pg.Client({ connectionString: testServerUrl() })
    await tx.connect()
    server = await TestServer.open({}, await postgresStore(testServerUrl(), { schema: httpSchema }))
  })
  afterAll(async () => {
    await server.close()
    await tx.query(`DROP SCHEMA ${httpSchema} CASCADE`)
    await tx.end()
  })

  test('keeps the other tenants’ calls neither waiting nor failing', async () => {
    const [a, b] = [await server.key(['enqueue'], ['a']), await server.key(['enqueue'], ['b'])]
    const post = (key: string, queue: string, idempotencyKey: string) =>
      server.as(key, 'POST', '/v1/jobs', { body: { type: 't', queue, idempotencyKey } })
    await tx.query('BEGIN')
    const held = await server.holdfast.enqueue('t', null, { queue: 'a', idempotencyKey: 'order:7', tx })
    let isAnswered = false
    const waiting = post(a, 'a', 'order:7').finally(() => {
      isAnswered = true
    })

    const others = []
    for (let n = 0; n < 5; n++) others.push(await post(b, 'b', `order:${n}`), await post(a, 'a', `other:${n}`))
    const wasAnswered = isAnswered
    await tx.query('COMMIT')

    expect(others.map(({ status }) => status)).toEqual(Array(10).fill(201))
    expect(wasAnswered).toBe(false)
    expect((await waiting).json).toMatchObject({ id: held.id, created: false })
  })

  test('is what a requeue is refused for, with 409 and the reason', async () => {
    const { id } = await server.holdfast.enqueue('dies', null, { queue: 'd', idempotencyKey: 'dead', maxAttempts: 1 })
    const handler = defineJob('dies', { queue: 'd' }).handle(() => Promise.reject(new Error('no')))
    const worker = server.holdfast.worker({ queues: ['d'], handlers: [handler] })
    await worker.start()
    await failure(server.holdfast.wait(id))
    await worker.stop()
    await tx.query('BEGIN')
    await server.holdfast.enqueue('t', null, { queue: 'd', idempotencyKey: 'dead', tx })

    const refused = await server.admin('POST', `/v1/jobs/${id}/requeue`)
    await tx.query('ROLLBACK')
    const requeued = await server.admin('POST', `/v1/jobs/${id}/requeue`)

    expect([refused.status, refused.json.code]).toEqual([409, 'key_conflict'])
    expect(refused.json.detail ?? refused.text).toContain('a transaction that has not ended')
    expect(requeued.status).toBe(200)
  })
})
