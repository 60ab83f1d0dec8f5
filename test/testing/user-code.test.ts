// Testing code that enqueues and completes in its own transaction, a handler alone, and a queue on a real server.

import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { DropJob, defineJob, type Holdfast, type Queryable } from '../../src/index.js'
import { assertEnqueued, holdfastMatchers, runHandler, testHoldfast } from '../../src/testing/index.js'
import { failure } from '../handlers/stores.js'
import { testServerUrl } from '../support/postgres.js'

const sendEmail = defineJob('send_email', { input: z.object({ to: z.email() }), queue: 'email' })

/** The code under test: the user and the job are written together. */
async function signUp(holdfast: Holdfast, tx: Queryable, to: string): Promise<string> {
  await tx.query('INSERT INTO users (email) VALUES ($1)', [to])
  return (await holdfast.enqueue(sendEmail, { to }, { tx, idempotencyKey: to })).id
}

describe('a transaction of the memory store', () => {
  test('leaves its jobs when it commits, and none when it is rolled back', async () => {
    const { holdfast, begin, drain, close } = await testHoldfast()
    const kept = begin()
    const forgotten = begin()

    const id = await signUp(holdfast, kept, 'ann@example.com')
    const gone = await signUp(holdfast, forgotten, 'bob@example.com')
    const before = await holdfast.get(id)
    await kept.commit()
    await forgotten.rollback()
    const jobs = await drain([sendEmail.handle(() => 'sent')])

    expect(before).toBeNull()
    expect(jobs.map((job) => job.id)).toEqual([id])
    expect(await holdfast.get(gone)).toBeNull()
    expect(kept.queries).toEqual([{ text: 'INSERT INTO users (email) VALUES ($1)', values: ['ann@example.com'] }])
    await close()
  })

  test('finds keys that were taken before it, and in it', async () => {
    const { holdfast, begin, close } = await testHoldfast()
    const { id } = await holdfast.enqueue(sendEmail, { to: 'ann@example.com' }, { idempotencyKey: 'ann' })
    const tx = begin()

    const held = await holdfast.enqueue(sendEmail, { to: 'ann@example.com' }, { tx, idempotencyKey: 'ann' })
    const first = await holdfast.enqueue(sendEmail, { to: 'bob@example.com' }, { tx, idempotencyKey: 'bob' })
    const again = await holdfast.enqueue(sendEmail, { to: 'bob@example.com' }, { tx, idempotencyKey: 'bob' })
    await tx.commit()

    expect(held).toEqual({ id, created: false, state: 'ready' })
    expect(again).toEqual({ id: first.id, created: false, state: 'ready' })
    expect((await holdfast.count()).count).toBe(2)
    await close()
  })

  test('settles the job of a handler that completes it', async () => {
    const { holdfast, begin, drain, close } = await testHoldfast()
    const { id } = await holdfast.enqueue(sendEmail, { to: 'ann@example.com' })
    const handler = sendEmail.handle(async (_payload, ctx) => {
      const tx = begin()
      await ctx.complete(tx, 'in the transaction')
      await tx.commit()
    })

    await drain([handler])

    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded', result: 'in the transaction' })
    await close()
  })

  test('a job whose handler rolled back runs again', async () => {
    const { holdfast, begin, drain, close } = await testHoldfast()
    const { id } = await holdfast.enqueue(sendEmail, { to: 'ann@example.com' })
    let runs = 0
    const handler = sendEmail.handle(async (_payload, ctx) => {
      runs++
      const tx = begin()
      await ctx.complete(tx)
      if (runs > 1) return tx.commit()
      await tx.rollback()
      throw new Error('the card was declined')
    })

    await drain([handler], { until: 'finished' })

    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 2 })
    await close()
  })

  test('takes nothing after its end, and the store takes no other', async () => {
    const { holdfast, begin, close } = await testHoldfast()
    const other = await testHoldfast()
    const tx = begin()
    await tx.commit()

    const ended = await failure(holdfast.enqueue(sendEmail, { to: 'ann@example.com' }, { tx }))
    const foreign = await failure(holdfast.enqueue(sendEmail, { to: 'ann@example.com' }, { tx: other.begin() }))
    const client = await failure(
      holdfast.enqueue(sendEmail, { to: 'ann@example.com' }, { tx: { query: async () => ({ rows: [] }) } }),
    )

    expect(ended).toMatchObject({ code: 'wrong_state' })
    expect(foreign).toMatchObject({ code: 'unsupported' })
    expect(client).toMatchObject({ code: 'unsupported' })
    expect(await failure(tx.commit())).toMatchObject({ code: 'wrong_state' })
    await Promise.all([close(), other.close()])
  })
})

describe('testHoldfast on PostgreSQL', () => {
  test('has a schema of its own, the manual clock and drain(), and leaves nothing', async () => {
    const { holdfast, clock, drain, schema, close } = await testHoldfast({ url: testServerUrl() })
    const client = new pg.Client({ connectionString: testServerUrl() })
    await client.connect()
    let runs = 0
    const handler = sendEmail.handle(() => {
      if (++runs === 1) throw new Error('again')
      return 'sent'
    })

    await client.query('BEGIN')
    const { id } = await holdfast.enqueue(sendEmail, { to: 'ann@example.com' }, { tx: client })
    await client.query('COMMIT')
    await holdfast.enqueue(sendEmail, { to: 'bob@example.com' }, { delay: '7d' })
    const now = await drain([handler])
    const later = await drain([handler], { until: 'finished' })
    const job = await holdfast.get(id)
    await close()
    const { rows } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
    await client.end()

    expect(now).toEqual([])
    expect(later.map(({ state }) => state)).toEqual(['succeeded', 'succeeded'])
    expect(job!.createdAt.getTime()).toBe(Date.UTC(2026, 0, 15, 12))
    expect(clock.now()).toBeGreaterThanOrEqual(Date.UTC(2026, 0, 22, 12))
    expect(schema).toMatch(/^holdfast_test_/)
    expect(rows).toEqual([])
  })

  test('refuses what is no PostgreSQL, and begins no transaction of its own', async () => {
    const { begin, close } = await testHoldfast({ url: testServerUrl() })

    expect(() => begin()).toThrow(/only a memory store/)
    expect(await failure(testHoldfast({ url: 'redis://localhost' }))).toMatchObject({ code: 'invalid_url' })
    await close()
  })
})

describe('runHandler', () => {
  const handler = sendEmail.handle(async ({ to }, ctx) => {
    ctx.log(`to ${to}`)
    ctx.progress(0.5)
    await ctx.enqueue('receipt', { to }, { delay: '1h' })
    if (ctx.attempt === 3) throw new DropJob('enough')
    return { sent: new Date(0) }
  })

  test('gives what a handler returned, as it is stored, and what it did', async () => {
    const run = await runHandler(handler, { to: 'ann@example.com' })

    expect(run).toEqual({
      result: { sent: '1970-01-01T00:00:00.000Z' },
      progress: [0.5],
      logs: ['to ann@example.com'],
      enqueued: [{ type: 'receipt', payload: { to: 'ann@example.com' }, options: { delay: '1h' } }],
      output: [],
      completed: false,
    })
  })

  test('rejects with what the handler throws, in the context that the test gives', async () => {
    expect(await failure(runHandler(handler, { to: 'ann@example.com' }, { attempt: 3 }))).toBeInstanceOf(DropJob)
  })

  test('checks the payload as before every run', async () => {
    expect(await failure(runHandler(handler, { to: 'nobody' }))).toMatchObject({ code: 'invalid_payload' })
  })

  test('says what needs a queue, and refuses what is no handler', async () => {
    const needy = sendEmail.handle((_payload, ctx) => ctx.holdfast)

    expect(await failure(runHandler(needy, { to: 'ann@example.com' }))).toMatchObject({ code: 'unsupported' })
    expect(await failure(runHandler(sendEmail as never, {}))).toMatchObject({ code: 'invalid_option' })
  })

  test('a handler that completes its job is told apart', async () => {
    const completing = sendEmail.handle(async (_payload, ctx) => ctx.complete({ query: async () => ({ rows: [] }) }, 7))

    expect(await runHandler(completing, { to: 'ann@example.com' })).toMatchObject({ result: 7, completed: true })
  })
})

describe('assertions', () => {
  test('toHaveEnqueued is a matcher for expect.extend', async () => {
    const { holdfast, close } = await testHoldfast()
    await holdfast.enqueue(sendEmail, { to: 'ann@example.com' })

    const found = await holdfastMatchers.toHaveEnqueued(holdfast, sendEmail, { payload: { to: 'ann@example.com' } })
    const missing = await holdfastMatchers.toHaveEnqueued(holdfast, 'charge_card')
    const mistake = await failure(holdfastMatchers.toHaveEnqueued(holdfast, sendEmail, { typo: 1 } as never))

    expect(found.pass).toBe(true)
    expect(missing.pass).toBe(false)
    expect(missing.message()).toMatch(/expected a job "charge_card".*send_email in email/s)
    expect(mistake).toMatchObject({ code: 'invalid_option' })
    expect.extend(holdfastMatchers as never)
    await (expect(holdfast) as unknown as { toHaveEnqueued(job: unknown): Promise<void> }).toHaveEnqueued(sendEmail)
    await assertEnqueued(holdfast, sendEmail)
    await close()
  })
})
