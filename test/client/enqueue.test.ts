import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../../src/client/define-job.js'
import { count, failure, finish, openClient, settled } from './support.js'

const sendEmail = defineJob('send_email', {
  input: z.object({ to: z.string(), at: z.coerce.date().optional() }),
  queue: 'email',
  maxAttempts: 10,
  timeout: '30s',
  tags: ['mail'],
})

describe('enqueue', () => {
  test('answers with a new id and where the job stands', async () => {
    const { client, store } = await openClient()

    const answer = await client.enqueue(sendEmail, { to: 'ann' })

    expect(answer).toEqual({ id: expect.any(String), created: true, state: 'ready' })
    expect(await store.get(answer.id)).toMatchObject({
      type: 'send_email',
      queue: 'email',
      state: 'ready',
      payload: { to: 'ann' },
      maxAttempts: 10,
      tags: ['mail'],
    })
  })

  test('takes a bare type where the producer has no definition', async () => {
    const { client } = await openClient()

    const { id } = await client.enqueue('resize', { image: 'a.png' })

    expect(await client.get(id)).toMatchObject({ type: 'resize', queue: 'default', payload: { image: 'a.png' } })
  })

  test('stores the input of a schema that transforms', async () => {
    const { client } = await openClient()

    const { id } = await client.enqueue(sendEmail, { to: 'ann', at: '2026-03-01T00:00:00Z' })

    expect((await client.get(id))?.payload).toEqual({ to: 'ann', at: '2026-03-01T00:00:00Z' })
  })

  test('takes a schema that answers with a promise', async () => {
    const { client, store } = await openClient()
    const slow = defineJob('slow', { input: z.object({ n: z.number().refine(async (n) => n > 0, 'not above 0') }) })

    const { id } = await client.enqueue(slow, { n: 1 })
    const error = await failure(client.enqueue(slow, { n: -1 }))

    expect((await client.get(id))?.payload).toEqual({ n: 1 })
    expect(error.code).toBe('invalid_payload')
    expect(error.message).toContain('n: not above 0')
    expect(await count(store)).toBe(1)
  })

  test('options of the call win over those of the definition', async () => {
    const { client } = await openClient()

    const { id } = await client.enqueue(
      sendEmail,
      { to: 'ann' },
      { queue: 'fast', priority: 7, maxAttempts: 2, tags: ['vip'] },
    )

    expect(await client.get(id)).toMatchObject({ queue: 'fast', priority: 7, maxAttempts: 2, tags: ['mail', 'vip'] })
  })

  test('a job with a delay is scheduled by the store clock, and upkeep is notified', async () => {
    const { client, clock, timed } = await openClient()

    const { id, state } = await client.enqueue('a', null, { delay: '5m' })

    expect(state).toBe('scheduled')
    expect((await client.get(id))?.runAt).toEqual(new Date(clock.now() + 300_000))
    expect(timed).toEqual([300_000])
  })

  test('a job with a time is scheduled for it; one whose time has passed is ready', async () => {
    const { client, clock, timed } = await openClient()

    const later = await client.enqueue('a', null, { runAt: new Date(clock.now() + 60_000) })
    const past = await client.enqueue('a', null, { runAt: '2020-02-29T00:00:00Z' })

    expect([later.state, past.state]).toEqual(['scheduled', 'ready'])
    expect(timed).toEqual([60_000])
  })

  test('a taken idempotency key answers with the job that has it', async () => {
    const { client, store } = await openClient()
    const first = await client.enqueue('a', 1, { idempotencyKey: 'welcome:42' })

    const second = await client.enqueue('a', 2, { idempotencyKey: 'welcome:42' })

    expect(second).toEqual({ id: first.id, created: false, state: 'ready' })
    expect(await count(store)).toBe(1)
  })

  test('64 callers racing on one key get one job and one id', async () => {
    const { client, store } = await openClient()

    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, n) => client.enqueue('a', n, { idempotencyKey: 'k' })),
    )

    expect(new Set(answers.map(({ id }) => id)).size).toBe(1)
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
    expect(await count(store)).toBe(1)
  })

  test('a key held for a time outlasts its job, and ends with the time', async () => {
    const { client, store, clock } = await openClient()
    const key = { key: 'daily', for: '1h' } as const
    const first = await client.enqueue('a', null, { idempotencyKey: key })
    await finish(store, 'default', { state: 'succeeded' })

    const within = await client.enqueue('a', null, { idempotencyKey: key })
    await clock.advance(3_600_000)
    const after = await client.enqueue('a', null, { idempotencyKey: key })

    expect(within).toEqual({ id: first.id, created: false, state: 'succeeded' })
    expect(after.created).toBe(true)
  })

  test('a job that comes after another is blocked until that one has finished', async () => {
    const { client, store } = await openClient()
    const parent = await client.enqueue('a', null)

    const child = await client.enqueue('b', null, { after: parent.id })
    await finish(store, 'default', { state: 'succeeded' })

    expect(child.state).toBe('blocked')
    expect(await client.get(child.id)).toMatchObject({ state: 'ready', after: [parent.id] })
  })

  test('ids grow and carry the time of the store, not of this process', async () => {
    const { client, clock } = await openClient()
    const storeMs = clock.now()
    clock.set(storeMs - 3_600_000)

    const { id: first } = await client.enqueue('a', null)
    await clock.advance(10)
    const { id: second } = await client.enqueue('a', null)

    expect(Number.parseInt(first.slice(0, 8) + first.slice(9, 13), 16)).toBe(storeMs)
    expect(second > first).toBe(true)
  })

  test('the time for ids is read again in the background once a minute', async () => {
    const { client, clock } = await openClient()
    await clock.advance(60_000)
    clock.set(clock.now() + 5_000)

    await client.enqueue('a', null)
    await settled(clock)
    const { id } = await client.enqueue('a', null)

    expect(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)).toBe(clock.now())
  })

  test('what a payload cannot hold in text comes back as it was', async () => {
    const { client } = await openClient()
    const payload = JSON.parse('{"__proto__":{"polluted":true},"nul":"a\\u0000b","lone":"\\ud800","big":1e300}')

    const { id } = await client.enqueue('a', payload)

    const stored = (await client.get(id))?.payload
    expect(JSON.stringify(stored)).toBe(JSON.stringify(payload))
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  test('no payload is stored as null', async () => {
    const { client } = await openClient()

    const { id } = await client.enqueue('a')

    expect((await client.get(id))?.payload).toBeNull()
  })
})
