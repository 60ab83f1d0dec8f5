import { describe, expect, test } from 'vitest'
import { failure, finish, type OpenClient, openClient } from './support.js'

async function openDead(options: { readonly idempotencyKey?: string } = {}): Promise<OpenClient & { id: string }> {
  const opened = await openClient()
  const { id } = await opened.client.enqueue('a', { n: 1 }, options)
  await finish(opened.store, 'default', { state: 'dead', error: new Error('boom') })
  return { ...opened, id }
}

describe('cancel', () => {
  test('cancels a job that waits', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null)

    const answer = await client.cancel(id)

    expect(answer).toEqual({ id, result: 'cancelled' })
    expect((await client.get(id))?.state).toBe('cancelled')
  })

  test('asks a job that runs', async () => {
    const { client, store } = await openClient()
    const { id } = await client.enqueue('a', null)
    await store.claim({ queues: [{ queue: 'default', limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 })

    const answer = await client.cancel(id, { by: 'ann@example.com' })

    expect(answer).toEqual({ id, result: 'asked' })
    expect(await client.get(id)).toMatchObject({ state: 'running', cancelRequested: true })
  })

  test('of a job that succeeded is refused and changes nothing', async () => {
    const { client, store } = await openClient()
    const { id } = await client.enqueue('a', null)
    await finish(store, 'default', { state: 'succeeded' })

    const error = await failure(client.cancel(id))

    expect(error).toMatchObject({ code: 'wrong_state', details: { id, state: 'succeeded' } })
    expect(error.message).toBe(
      `job ${id} cannot be cancelled: it is succeeded already; only a job that has not finished can be`,
    )
    expect((await client.get(id))?.state).toBe('succeeded')
  })
})

describe('requeue', () => {
  test('requeues a dead job and records who did it', async () => {
    const { client, id } = await openDead()

    const answer = await client.requeue(id, { by: 'ann' })

    expect(answer).toEqual({ id, requeues: 1 })
    expect(await client.get(id)).toMatchObject({ state: 'ready', attempt: 0, requeues: [{ number: 1, by: 'ann' }] })
  })

  test('of a live job is refused and changes nothing', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null)

    const error = await failure(client.requeue(id))

    expect(error.code).toBe('wrong_state')
    expect(error.message).toBe(`job ${id} cannot be requeued: it is ready; only a dead job can be`)
    expect(await client.get(id)).toMatchObject({ state: 'ready', requeues: [] })
  })

  test('of a job whose key another one has taken is refused', async () => {
    const { client, id } = await openDead({ idempotencyKey: 'k' })
    const other = await client.enqueue('a', null, { idempotencyKey: 'k' })

    const error = await failure(client.requeue(id))

    expect(error).toMatchObject({ code: 'key_conflict', details: { id, heldBy: other.id } })
    expect(error.message).toContain(`job ${other.id} has taken its idempotency key`)
    expect((await client.get(id))?.state).toBe('dead')
  })

  test('of many takes those that match, page by page', async () => {
    const { client, store } = await openClient()
    for (const queue of ['a', 'b']) {
      await client.enqueueMany('t', Array(250).fill(null), { queue })
      for (let n = 0; n < 250; n++) await finish(store, queue, { state: 'dead' })
    }

    const answer = await client.requeue({ filter: { queue: 'a' } })

    expect(answer).toEqual({ requeued: 250, refused: [], more: false })
    expect(await client.stats('a')).toMatchObject({ ready: 250, dead: 0 })
    expect(await client.stats('b')).toMatchObject({ ready: 0, dead: 250 })
  })

  test('of many stops at the limit and says that there may be more', async () => {
    const { client, store } = await openClient()
    await client.enqueueMany('t', Array(5).fill(null))
    for (let n = 0; n < 5; n++) await finish(store, 'default', { state: 'dead' })

    const answer = await client.requeue({ filter: {}, limit: 3 }, { by: 'ann' })

    expect(answer).toMatchObject({ requeued: 3, more: true })
    expect(await client.stats()).toMatchObject({ ready: 3, dead: 2 })
  })

  test('of many lists those that stay dead', async () => {
    const { client, id } = await openDead({ idempotencyKey: 'k' })
    const other = await client.enqueue('a', null, { idempotencyKey: 'k' })

    const answer = await client.requeue({ filter: { type: 'a' } })

    expect(answer).toEqual({ requeued: 0, refused: [{ id, state: 'dead', heldBy: other.id }], more: false })
  })
})

describe('discard', () => {
  test('takes a dead job out of the dead-letter queue', async () => {
    const { client, id } = await openDead()

    await client.discard(id)

    expect((await client.get(id))?.state).toBe('cancelled')
  })

  test('of a live job is refused', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null)

    const error = await failure(client.discard(id))

    expect(error.code).toBe('wrong_state')
    expect(error.message).toContain('cancel() stops a living one')
    expect((await client.get(id))?.state).toBe('ready')
  })
})

describe('update', () => {
  test('changes priority and payload of a job that waits', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', { n: 1 })

    const answer = await client.update(id, { priority: 9, payload: { n: 2 } })

    expect(answer).toEqual({ id, state: 'ready', dueInMs: null })
    expect(await client.get(id)).toMatchObject({ priority: 9, payload: { n: 2 } })
  })

  test('puts a job off, and upkeep is notified', async () => {
    const { client, clock, timed } = await openClient()
    const { id } = await client.enqueue('a', null)

    const answer = await client.update(id, { delay: '10m' })

    expect(answer).toEqual({ id, state: 'scheduled', dueInMs: 600_000 })
    expect((await client.get(id))?.runAt).toEqual(new Date(clock.now() + 600_000))
    expect(timed).toEqual([600_000])
  })

  test('brings a job forward to now', async () => {
    const { client, clock, timed } = await openClient()
    const { id } = await client.enqueue('a', null, { delay: '1h' })

    await client.update(id, { runAt: null })

    expect((await client.get(id))?.runAt).toEqual(new Date(clock.now()))
    expect(timed).toEqual([3_600_000, 0])
  })

  test('of a job that has finished is refused and changes nothing', async () => {
    const { client, id } = await openDead()

    const error = await failure(client.update(id, { priority: 1 }))

    expect(error.code).toBe('wrong_state')
    expect(error.message).toContain('it is dead already; only a job that waits')
    expect((await client.get(id))?.priority).toBe(0)
  })
})

describe('queues', () => {
  test('a paused queue takes jobs and gives none until it is resumed', async () => {
    const { client, store } = await openClient()
    const claim = () =>
      store.claim({ queues: [{ queue: 'mail', limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 })

    await client.pause('mail')
    await client.enqueue('a', null, { queue: 'mail' })
    const whilePaused = await claim()
    await client.resume('mail', { by: 'ann' })
    const afterwards = await claim()

    expect(whilePaused.jobs).toHaveLength(0)
    expect(afterwards.jobs).toHaveLength(1)
  })

  test('settings are kept in the store and hold for jobs that set nothing themselves', async () => {
    const { client } = await openClient()

    await client.setQueue('mail', { maxAttempts: 3, timeout: '10s', retention: '1d', retry: { backoff: ['1s', '1m'] } })
    const plain = await client.enqueue('a', null, { queue: 'mail' })
    const own = await client.enqueue('a', null, { queue: 'mail', maxAttempts: 7 })

    expect(await client.queues()).toMatchObject([
      {
        name: 'mail',
        paused: false,
        settings: {
          limits: { maxAttempts: 3, timeoutMs: 10_000, retry: { backoff: [1_000, 60_000] } },
          retentionMs: 86_400_000,
        },
      },
    ])
    expect((await client.get(plain.id))?.maxAttempts).toBe(3)
    expect((await client.get(own.id))?.maxAttempts).toBe(7)
  })
})

describe('list', () => {
  test('shows the newest first and goes on where a page ended', async () => {
    const { client } = await openClient()
    const answers = await client.enqueueMany('a', [1, 2, 3, 4, 5])
    const newest = answers.map(({ id }) => id).reverse()

    const first = await client.list({ limit: 3 })
    const second = await client.list({ limit: 3, cursor: first.cursor })

    expect(first.jobs.map(({ id }) => id)).toEqual(newest.slice(0, 3))
    expect(second.jobs.map(({ id }) => id)).toEqual(newest.slice(3))
    expect(second.cursor).toBeNull()
  })

  test('narrows to what is asked for', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null, { tags: ['x'], queue: 'q', delay: '1m' })
    await client.enqueue('b', null)

    const { jobs } = await client.list({ state: 'scheduled', queue: 'q', type: 'a', tag: 'x' })

    expect(jobs.map((job) => job.id)).toEqual([id])
  })
})

test('an event reaches listeners until they leave, and a listener that throws disturbs nobody', async () => {
  const { client } = await openClient()
  const names: string[] = []
  client.on(() => {
    throw new Error('listener bug')
  })
  const off = client.on(({ name }) => names.push(name))

  await client.enqueue('a', 1)
  off()
  await client.enqueue('a', 2)

  expect(names).toEqual(['job.enqueued', 'enqueue.answered'])
})
