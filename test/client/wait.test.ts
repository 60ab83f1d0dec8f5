import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { failure, finish, openClient, settled, unavailable } from './support.js'

const ID = '0190a3c2-7b1e-7c2d-8e4f-1a2b3c4d5e6f'

function counting(asked: (readonly string[])[]): (store: Store) => Store {
  return (store) => ({
    ...store,
    endings(ids) {
      asked.push(ids)
      return store.endings(ids)
    },
  })
}

describe('wait resolves', () => {
  test('with what the handler returned', async () => {
    const { client, store } = await openClient()
    const { id } = await client.enqueue('a', null)
    await finish(store, 'default', { state: 'succeeded', result: { sum: 3 } })

    expect(await client.wait(id)).toEqual({ sum: 3 })
  })

  test('with null when it returned nothing', async () => {
    const { client, store } = await openClient()
    const { id } = await client.enqueue('a', null)
    await finish(store, 'default', { state: 'succeeded' })

    expect(await client.wait(id)).toBeNull()
  })

  test('when the job finishes elsewhere while it waits', async () => {
    const { client, store, clock } = await openClient()
    const { id } = await client.enqueue('a', null)
    const result = client.wait(id)
    await clock.advance(1_000)

    await finish(store, 'default', { state: 'succeeded', result: 'late' })
    await clock.advance(500)

    expect(await result).toBe('late')
  })

  test('without any time passing when the job is settled in this process', async () => {
    const { client, store, clock, events } = await openClient()
    const { id } = await client.enqueue('a', null)
    const result = client.wait(id)
    await clock.advance(5_000)
    const before = clock.monotonic()

    await finish(store, 'default', { state: 'succeeded', result: 1 })
    events.emit({
      name: 'job.settled',
      id,
      type: 'a',
      queue: 'default',
      state: 'succeeded',
      reason: null,
      delayMs: null,
    })

    expect(await result).toBe(1)
    expect(clock.monotonic()).toBe(before)
  })

  test('for every caller that waits for the same job', async () => {
    const { client, store, clock } = await openClient()
    const { id } = await client.enqueue('a', null)
    const results = Promise.all([client.wait(id), client.wait(id), client.wait(id)])
    await settled(clock)

    await finish(store, 'default', { state: 'succeeded', result: 7 })
    await clock.advance(25)

    expect(await results).toEqual([7, 7, 7])
  })
})

describe('wait rejects', () => {
  test('with job_dead, the reason and the error', async () => {
    const { client, store } = await openClient()
    const { id } = await client.enqueue('a', null)
    await finish(store, 'default', { state: 'dead', error: new TypeError('boom') })

    const error = await failure(client.wait(id))

    expect(error.code).toBe('job_dead')
    expect(error.message).toBe(`job ${id} is dead (attempts): TypeError: boom`)
    expect(error.details).toMatchObject({ reason: 'attempts', error: { message: 'boom' } })
  })

  test('with job_cancelled', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null)
    await client.cancel(id)

    const error = await failure(client.wait(id))

    expect(error.code).toBe('job_cancelled')
    expect(error.message).toBe(`job ${id} was cancelled`)
  })

  test('with job_not_found when there is no such job', async () => {
    const { client } = await openClient()

    const error = await failure(client.wait(ID))

    expect(error.code).toBe('job_not_found')
    expect(error.message).toContain(ID)
  })

  test('with wait_timeout after the time given', async () => {
    const { client, clock } = await openClient()
    const { id } = await client.enqueue('a', null)
    const error = failure(client.wait(id, { timeout: '2s' }))

    await clock.advance(2_000)

    expect(await error).toMatchObject({ code: 'wait_timeout', retryable: true })
    expect((await error).message).toMatch(/was not seen to finish within 2s/)
    expect((await client.get(id))?.state).toBe('ready')
  })

  test('with wait_timeout after a minute when nothing is said', async () => {
    const { client, clock } = await openClient()
    const { id } = await client.enqueue('a', null)
    const error = failure(client.wait(id))

    await clock.advance(60_000)

    expect((await error).code).toBe('wait_timeout')
  })

  test('with aborted when its signal fires, before or later', async () => {
    const { client, clock } = await openClient()
    const { id } = await client.enqueue('a', null)
    const abort = new AbortController()

    const before = await failure(client.wait(id, { signal: AbortSignal.abort() }))
    const later = failure(client.wait(id, { signal: abort.signal }))
    await settled(clock)
    abort.abort()

    expect(before.code).toBe('aborted')
    expect((await later).code).toBe('aborted')
  })

  test('with closed when the client is closed', async () => {
    const { client, clock } = await openClient()
    const { id } = await client.enqueue('a', null)
    const error = failure(client.wait(id))
    await settled(clock)

    await client.close()

    expect((await error).code).toBe('closed')
  })

  test('in time also when the store fails', async () => {
    const { client, clock, heard } = await openClient({
      between: (store) => ({
        ...store,
        async endings() {
          throw unavailable()
        },
      }),
    })
    const error = failure(client.wait(ID, { timeout: '3s' }))

    await clock.advance(3_000)

    expect((await error).code).toBe('wait_timeout')
    expect(heard).toContainEqual(expect.objectContaining({ name: 'store.failed', during: 'wait' }))
  })

  test('in time also when the store never answers', async () => {
    const { client, clock } = await openClient({
      between: (store) => ({ ...store, endings: () => new Promise(() => {}) }),
    })
    const error = failure(client.wait(ID, { timeout: '3s' }))

    await clock.advance(3_000)

    expect((await error).code).toBe('wait_timeout')
  })
})

describe('polling', () => {
  test('recovers when the store does', async () => {
    let isDown = true
    const { client, store, clock } = await openClient({
      between: (inner) => ({
        ...inner,
        async endings(ids) {
          if (isDown) throw unavailable()
          return inner.endings(ids)
        },
      }),
    })
    const { id } = await client.enqueue('a', null)
    const result = client.wait(id)
    await clock.advance(2_000)

    isDown = false
    await finish(store, 'default', { state: 'succeeded', result: 1 })
    await clock.advance(500)

    expect(await result).toBe(1)
  })

  test('asks for all waited jobs in one call', async () => {
    const asked: (readonly string[])[] = []
    const { client, clock } = await openClient({ between: counting(asked) })
    const jobs = await client.enqueueMany('a', [1, 2, 3])
    const errors = Promise.all(jobs.map(({ id }) => failure(client.wait(id, { timeout: '1s' }))))

    await settled(clock)
    const first = asked[0]
    await clock.advance(1_000)
    await errors

    expect(first).toHaveLength(3)
  })

  test('slows down to twice a second', async () => {
    const asked: (readonly string[])[] = []
    const { client, clock } = await openClient({ between: counting(asked) })
    const { id } = await client.enqueue('a', null)
    const error = failure(client.wait(id, { timeout: '60s' }))

    await clock.advance(30_000)
    const early = asked.length
    await clock.advance(10_000)
    const late = asked.length - early
    await clock.advance(20_000)
    await error

    expect(late).toBe(20)
  })

  test('stops, and nobody listens, when nothing is waited for', async () => {
    const asked: (readonly string[])[] = []
    const { client, store, clock } = await openClient({ between: counting(asked) })
    const { id } = await client.enqueue('a', null)
    await finish(store, 'default', { state: 'succeeded' })
    await client.wait(id)
    const before = asked.length

    await clock.advance(10_000)

    expect(asked.length).toBe(before)
  })
})
