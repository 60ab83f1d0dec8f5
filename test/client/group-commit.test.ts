import { describe, expect, test } from 'vitest'
import { HoldfastError } from '../../src/core/errors.js'
import type { NewJob } from '../../src/core/job.js'
import {
  count,
  type EnqueueFaults,
  failure,
  faultyEnqueue,
  gate,
  type OpenOptions,
  openClient,
  settled,
  unavailable,
} from './support.js'

async function openFaulty(faults: EnqueueFaults, options: OpenOptions = {}) {
  const calls: (readonly NewJob[])[] = []
  const opened = await openClient({ ...options, between: (store) => faultyEnqueue(store, faults, calls) })
  return { ...opened, calls }
}

/** Holds the first call back until told, and lets the later ones through. */
function holdFirst(): EnqueueFaults & { open(): void } {
  const { opened, open } = gate()
  return { before: () => opened, open }
}

const payloads = (calls: readonly (readonly NewJob[])[]) => calls.map((jobs) => jobs.map(({ payload }) => payload))

describe('gathering', () => {
  test('calls made together are written together, in their order', async () => {
    const { client, calls } = await openFaulty({})

    await Promise.all([1, 2, 3].map((n) => client.enqueue('a', n)))

    expect(payloads(calls)).toEqual([['1', '2', '3']])
  })

  test('while a flush is in flight the next one gathers', async () => {
    const hold = holdFirst()
    const { client, clock, calls } = await openFaulty(hold)
    const first = client.enqueue('a', 1)
    await settled(clock)

    const others = [2, 3, 4].map((n) => client.enqueue('a', n))
    await settled(clock)
    const beforeAnswer = payloads(calls)
    hold.open()
    await Promise.all([first, ...others])

    expect(beforeAnswer).toEqual([['1']])
    expect(payloads(calls)).toEqual([['1'], ['2', '3', '4']])
  })

  test('a call is written without waiting for time to pass', async () => {
    const { client, clock } = await openFaulty({})
    const before = clock.monotonic()

    await client.enqueue('a', 1)

    expect(clock.monotonic()).toBe(before)
  })

  test('jobs are claimed in the order they were enqueued', async () => {
    const { client, store } = await openFaulty({})

    await Promise.all(Array.from({ length: 50 }, (_, n) => client.enqueue('a', n)))

    const { jobs } = await store.claim({
      queues: [{ queue: 'default', limit: 50 }],
      types: null,
      worker: 'w',
      leaseMs: 30_000,
    })
    expect(jobs.map(({ payload }) => Number(payload))).toEqual(Array.from({ length: 50 }, (_, n) => n))
  })

  test('a flush holds at most 1,000 jobs', async () => {
    const { client, calls } = await openFaulty({})

    await Promise.all(Array.from({ length: 2_500 }, (_, n) => client.enqueue('a', n)))

    expect(calls.map((jobs) => jobs.length)).toEqual([1_000, 1_000, 500])
  })

  test('a flush holds at most 8 MiB', async () => {
    const { client, calls } = await openFaulty({})
    const payload = 'x'.repeat(1_000_000)

    await Promise.all(Array.from({ length: 10 }, () => client.enqueue('a', payload)))

    expect(calls.map((jobs) => jobs.length)).toEqual([8, 2])
  })

  test('a few timed jobs among many plain ones are written apart, and each call gets its own answer', async () => {
    const { client, store, calls } = await openFaulty({})

    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => client.enqueue('a', n, n % 25 === 7 ? { delay: '1m' } : {})),
    )

    expect(calls.map((jobs) => jobs.length)).toEqual([48, 2])
    expect(payloads(calls)[1]).toEqual(['7', '32'])
    const views = await Promise.all(answers.map(({ id }) => store.get(id)))
    expect(views.map((view) => view!.payload)).toEqual(answers.map((_, n) => n))
  })

  test('few calls are written together, timed or not', async () => {
    const { client, calls } = await openFaulty({})

    await Promise.all([1, 2, 3].map((n) => client.enqueue('a', n, n === 2 ? { delay: '1m' } : {})))

    expect(calls.map((jobs) => jobs.length)).toEqual([3])
  })

  test('what was written is told once for each flush', async () => {
    const { client, heard } = await openFaulty({})

    await Promise.all([1, 2, 3].map((n) => client.enqueue('a', n)))

    expect(heard.filter(({ name }) => name === 'job.enqueued')).toEqual([{ name: 'job.enqueued', count: 3, tookMs: 0 }])
  })
})

describe('the buffer is bounded', () => {
  test('a call beyond the bound rejects at once and says that it may be retried', async () => {
    const hold = holdFirst()
    const { client, store, clock } = await openFaulty(hold, { bufferJobsMax: 2 })
    const waiting = [client.enqueue('a', 1), client.enqueue('a', 2)]
    await settled(clock)

    const error = await failure(client.enqueue('a', 3))
    hold.open()
    await Promise.all(waiting)
    const later = await client.enqueue('a', 4)

    expect(error).toMatchObject({ code: 'buffer_full', retryable: true })
    expect(error.message).toMatch(/^2 jobs \(2 bytes\) already wait.*nothing was enqueued, retry when/)
    expect(later.created).toBe(true)
    expect(await count(store)).toBe(3)
  })

  test('bytes count as well as jobs', async () => {
    const hold = holdFirst()
    const { client, clock } = await openFaulty(hold)
    const payload = 'x'.repeat(1_000_000)
    const waiting = Array.from({ length: 67 }, () => client.enqueue('a', payload))
    await settled(clock)

    const error = await failure(client.enqueue('a', payload))
    hold.open()
    await Promise.all(waiting)

    expect(error.code).toBe('buffer_full')
  })
})

describe('a job the store refuses', () => {
  const refusing = (isBad: (job: NewJob) => boolean): EnqueueFaults => ({
    before(jobs) {
      if (jobs.some(isBad)) throw new HoldfastError('store_refused', 'invalid byte sequence')
    },
  })

  test('fails alone: its neighbours are written', async () => {
    const { client, store, calls } = await openFaulty(refusing(({ payload }) => payload === '5'))

    const answers = await Promise.allSettled(Array.from({ length: 8 }, (_, n) => client.enqueue('a', n)))

    expect(answers.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
    expect(answers[5]).toMatchObject({ reason: { code: 'store_refused', message: 'invalid byte sequence' } })
    expect(await count(store)).toBe(7)
    expect(calls.length).toBeLessThanOrEqual(7)
  })

  test('order is kept around it', async () => {
    const { client, store } = await openFaulty(refusing(({ payload }) => payload === '2'))

    await Promise.allSettled(Array.from({ length: 6 }, (_, n) => client.enqueue('a', n)))

    const { jobs } = await store.claim({
      queues: [{ queue: 'default', limit: 9 }],
      types: null,
      worker: 'w',
      leaseMs: 30_000,
    })
    expect(jobs.map(({ payload }) => payload)).toEqual(['0', '1', '3', '4', '5'])
  })

  test('a refusal that is about the connection reaches every call at once', async () => {
    const { client, calls, store } = await openFaulty({
      before() {
        throw new HoldfastError('store_read_only', 'the server is read-only')
      },
    })

    const answers = await Promise.allSettled([1, 2, 3, 4].map((n) => client.enqueue('a', n)))

    expect(answers.every((answer) => answer.status === 'rejected' && answer.reason.code === 'store_read_only')).toBe(
      true,
    )
    expect(calls).toHaveLength(1)
    expect(await count(store)).toBe(0)
  })
})

describe('a store that cannot be reached', () => {
  test('is tried again with the same ids until it answers', async () => {
    let failures = 3
    const { client, store, clock, calls, heard } = await openFaulty({
      before() {
        if (failures-- > 0) throw unavailable()
      },
    })

    const answers = Promise.all([client.enqueue('a', 1), client.enqueue('a', 2)])
    await clock.advance(5_000)

    const ids = (await answers).map(({ id }) => id)
    expect(calls).toHaveLength(4)
    expect(calls.every((jobs) => jobs.map(({ id }) => id).join() === ids.join())).toBe(true)
    expect(await count(store)).toBe(2)
    expect(heard.map(({ name }) => name).filter((name) => name !== 'enqueue.answered')).toEqual([
      'store.failed',
      'store.failed',
      'store.failed',
      'store.recovered',
      'job.enqueued',
    ])
  })

  test('a lost answer makes no second job', async () => {
    let isLost = true
    const { client, store, clock } = await openFaulty({
      after() {
        if (!isLost) return
        isLost = false
        throw unavailable()
      },
    })

    const answer = client.enqueue('a', 1, { idempotencyKey: 'k' })
    await clock.advance(5_000)

    expect(await answer).toMatchObject({ created: true, state: 'ready' })
    expect(await count(store)).toBe(1)
  })

  test('every call that waits rejects after the timeout, and says what may have happened', async () => {
    const { client, clock, calls } = await openFaulty(
      {
        before() {
          throw unavailable()
        },
      },
      { enqueueTimeoutMs: 30_000 },
    )
    const first = failure(client.enqueue('a', 1))
    await clock.advance(10_000)
    const second = failure(client.enqueue('a', 2))

    await clock.advance(20_000)
    const firstError = await first
    const sentIds = calls.flat().map(({ id }) => id)
    const early = await Promise.race([second, 'still waiting'])
    await clock.advance(10_000)
    const secondError = await second

    expect(firstError).toMatchObject({ code: 'store_unavailable', retryable: true, details: { written: 'unknown' } })
    expect(firstError.message).toMatch(
      /within 30s \(the connection was cut\): it may or may not have been written; enqueueing again with an idempotency key is safe$/,
    )
    expect(new Set(sentIds).size).toBe(1)
    expect(early).toBe('still waiting')
    expect(secondError).toMatchObject({ code: 'store_unavailable' })
  })

  test('a call that was never sent is told that nothing was written', async () => {
    const hang = gate()
    const { client, clock } = await openFaulty({ before: () => hang.opened })
    const sent = failure(client.enqueue('a', 1))
    await settled(clock)
    const unsent = failure(client.enqueue('a', 2))

    await clock.advance(30_000)

    expect((await sent).details).toMatchObject({ written: 'unknown' })
    expect((await unsent).details).toMatchObject({ written: 'no' })
    expect((await unsent).message).toContain('nothing was written, enqueue again')
  })

  test('a call that gave up is not sent again', async () => {
    let isDown = true
    const { client, store, clock } = await openFaulty({
      before() {
        if (isDown) throw unavailable()
      },
    })
    const gone = failure(client.enqueue('a', 1))
    await clock.advance(30_000)
    await gone

    isDown = false
    await clock.advance(5_000)
    await client.enqueue('a', 2)

    expect(await count(store)).toBe(1)
  })
})

describe('a signal', () => {
  test('that has fired keeps the job from being written', async () => {
    const { client, store } = await openFaulty({})

    const error = await failure(client.enqueue('a', 1, { signal: AbortSignal.abort() }))

    expect(error).toMatchObject({ code: 'aborted', details: { written: 'no' } })
    expect(await count(store)).toBe(0)
  })

  test('that fires while the job is gathered takes it out', async () => {
    const hold = holdFirst()
    const { client, store, clock } = await openFaulty(hold)
    const abort = new AbortController()
    const first = client.enqueue('a', 1)
    await settled(clock)
    const second = failure(client.enqueue('a', 2, { signal: abort.signal }))

    abort.abort()
    const error = await second
    hold.open()
    await first
    await settled(clock)

    expect(error).toMatchObject({ code: 'aborted', details: { written: 'no' } })
    expect(await count(store)).toBe(1)
  })

  test('that fires while the job is in flight says that nobody knows', async () => {
    const hold = holdFirst()
    const { client, clock } = await openFaulty(hold)
    const abort = new AbortController()
    const sent = failure(client.enqueue('a', 1, { signal: abort.signal }))
    await settled(clock)

    abort.abort()

    expect(await sent).toMatchObject({ code: 'aborted', details: { written: 'unknown' } })
    hold.open()
  })
})

describe('closing', () => {
  test('writes what was gathered and refuses what comes later', async () => {
    const hold = holdFirst()
    const { client, store, clock } = await openFaulty(hold)
    const waiting = [client.enqueue('a', 1)]
    await settled(clock)
    waiting.push(client.enqueue('a', 2), client.enqueue('a', 3))

    const closed = client.close()
    const error = await failure(client.enqueue('a', 4))
    hold.open()
    await closed

    expect(await Promise.all(waiting)).toHaveLength(3)
    expect(error).toMatchObject({ code: 'closed' })
    expect(await count(store)).toBe(3)
  })

  test('every later call rejects with closed', async () => {
    const { client } = await openFaulty({})
    await client.close()

    const errors = await Promise.all([
      failure(client.enqueueMany('a', [1])),
      failure(client.list()),
      failure(client.stats()),
      failure(client.wait('0190a3c2-7b1e-7c2d-8e4f-1a2b3c4d5e6f')),
    ])

    expect(errors.map(({ code }) => code)).toEqual(['closed', 'closed', 'closed', 'closed'])
  })
})
