import { describe, expect, test } from 'vitest'
import type { Client } from '../../src/client/client.js'
import { HoldfastError } from '../../src/core/errors.js'
import { heldKeys } from '../../src/core/held-keys.js'
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

/** Holds the first call back until it is let go, and lets the later ones through. */
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

  test('a few timed jobs among many others are written with them, last, and each call gets its own answer', async () => {
    const { client, store, calls } = await openFaulty({})

    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => client.enqueue('a', n, n % 25 === 7 ? { delay: '1m' } : {})),
    )

    expect(calls.map((jobs) => jobs.length)).toEqual([50])
    expect(payloads(calls)[0]!.slice(-2)).toEqual(['7', '32'])
    const views = await Promise.all(answers.map(({ id }) => store.get(id)))
    expect(views.map((view) => view!.payload)).toEqual(answers.map((_, n) => n))
  })

  test('few calls are written together, timed or not', async () => {
    const { client, calls } = await openFaulty({})

    await Promise.all([1, 2, 3].map((n) => client.enqueue('a', n, n === 2 ? { delay: '1m' } : {})))

    expect(calls.map((jobs) => jobs.length)).toEqual([3])
  })

  test('jobs with parents are written apart from those that refer to no other', async () => {
    const { client, calls } = await openFaulty({})
    const { id: parent } = await client.enqueue('a', 0)

    await Promise.all([1, 2, 3].map((n) => client.enqueue('a', n, n === 2 ? { after: parent } : {})))

    expect(payloads(calls).slice(1).sort()).toEqual([['1', '3'], ['2']])
  })

  test('what was written is reported once for each flush', async () => {
    const { client, heard } = await openFaulty({})

    await Promise.all([1, 2, 3].map((n) => client.enqueue('a', n)))

    expect(heard.filter(({ name }) => name === 'job.enqueued')).toEqual([{ name: 'job.enqueued', count: 3, tookMs: 0 }])
  })
})

describe('the buffer is bounded', () => {
  test('a call beyond the bound rejects immediately and says that it may be retried', async () => {
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

describe('a key that an open transaction holds', () => {
  /** Holds the keys that begin with "held" until told. */
  function holdKeys(): EnqueueFaults & { release(): void } {
    let isOver = false
    return {
      before(jobs) {
        const held = jobs.filter(({ idempotencyKey }) => !isOver && idempotencyKey?.key.startsWith('held'))
        if (held.length > 0) throw heldKeys(held, true)
      },
      release: () => {
        isOver = true
      },
    }
  }
  const keyed = (client: Client, key: string, payload: unknown = null) =>
    client.enqueue('a', payload, { idempotencyKey: key })

  test('is asked for by one call in each round, and the others of that key follow it', async () => {
    const keys = holdKeys()
    const { client, clock, calls } = await openFaulty(keys)
    const waiting = Array.from({ length: 5 }, () => keyed(client, 'held'))
    const others = await Promise.all([keyed(client, 'a'), keyed(client, 'b')])
    const before = calls.length
    await clock.advance(1_000)
    const rounds = calls.slice(before)
    keys.release()
    await clock.advance(200)

    expect(others.map(({ created }) => created)).toEqual([true, true])
    expect(rounds.length).toBeGreaterThanOrEqual(5)
    expect(rounds.every((jobs) => jobs.length === 1)).toBe(true)
    const answers = await Promise.all(waiting)
    expect(answers.map(({ created }) => created)).toEqual([true, false, false, false, false])
  })

  test('is known not to be written also by a caller whose time is over while it is asked for', async () => {
    const answer = gate()
    let asked = 0
    const { client, clock } = await openFaulty({
      async before(jobs) {
        if (++asked === 2) await answer.opened
        throw heldKeys(jobs, true)
      },
    })
    const waiting = failure(keyed(client, 'held'))
    await clock.advance(30_010)
    const askedByThen = asked
    answer.open()
    await clock.advance(100)

    expect(askedByThen).toBe(2)
    expect(await waiting).toMatchObject({ code: 'store_unavailable', details: { written: 'no' } })
  })

  test('is left in doubt half a second after its time, when the store does not answer', async () => {
    let asked = 0
    const { client, clock } = await openFaulty({
      async before(jobs) {
        if (++asked === 2) await new Promise(() => {})
        throw heldKeys(jobs, true)
      },
    })
    const waiting = failure(keyed(client, 'held'))
    await clock.advance(30_600)

    expect(await waiting).toMatchObject({ code: 'store_unavailable', details: { written: 'unknown' } })
  })

  test('leaves half of the room to the others: more callers are refused immediately', async () => {
    const { client, clock } = await openFaulty(holdKeys(), { bufferJobsMax: 20 })
    const told: string[] = []
    const waiting = Array.from({ length: 15 }, (_, n) =>
      keyed(client, `held ${n}`).catch(({ code }) => told.push(code)),
    )
    await settled(clock)
    const toldAtOnce = [...told]

    const others = await Promise.all(Array.from({ length: 9 }, (_, n) => keyed(client, `free ${n}`)))
    await clock.advance(31_000)
    await Promise.all(waiting)

    expect(toldAtOnce).toEqual(Array(5).fill('buffer_full'))
    expect(others.every(({ created }) => created)).toBe(true)
    expect(told).toHaveLength(15)
  })

  test.each([
    ['an enqueue', async (client: Client) => [await keyed(client, 'held')]],
    ['an enqueueMany', (client: Client) => manyKeyed(client, 'held', 'beside')],
  ])('is waited for by close() when %s names it', async (_, call) => {
    const keys = holdKeys()
    const { client, clock } = await openFaulty(keys)
    const waiting = call(client)
    await settled(clock)
    let isClosed = false
    const closing = client.close().then(() => {
      isClosed = true
    })
    await clock.advance(1_000)
    const wasClosed = isClosed
    keys.release()
    await clock.advance(200)
    await closing

    expect(wasClosed).toBe(false)
    expect((await waiting).every(({ created }) => created)).toBe(true)
  })

  const manyKeyed = (client: Client, ...keys: readonly string[]) =>
    client.enqueueMany(keys.map((idempotencyKey) => ['a', null, { idempotencyKey }] as const))

  test('is asked for by one enqueueMany in each round, and those that name it later do not ask', async () => {
    const keys = holdKeys()
    const { client, clock, calls } = await openFaulty(keys)
    const first = manyKeyed(client, 'held', 'beside')
    await settled(clock)
    const before = calls.length
    const later = Array.from({ length: 50 }, (_, n) => manyKeyed(client, `mine ${n}`, 'held'))
    await settled(clock)
    const askedByLater = calls.length - before
    const stranger = await manyKeyed(client, 'stranger')
    await clock.advance(1_000)
    const rounds = calls.slice(before + 1)
    keys.release()
    await clock.advance(200)

    expect(askedByLater).toBe(0)
    expect(stranger.map(({ created }) => created)).toEqual([true])
    expect(rounds.length).toBeGreaterThanOrEqual(5)
    expect(rounds.every((jobs) => jobs.length === 2)).toBe(true)
    expect((await first).map(({ created }) => created)).toEqual([true, true])
    for (const answers of await Promise.all(later)) expect(answers.map(({ created }) => created)).toEqual([true, false])
  })

  test('is not asked for by calls that were made before it was known to be held', async () => {
    const keys = holdKeys()
    const first = gate()
    const { client, clock, calls } = await openFaulty({
      async before(jobs) {
        await first.opened
        keys.before?.(jobs)
      },
    })
    const waiting = [failure(manyKeyed(client, 'held')), failure(keyed(client, 'held'))]
    await settled(clock)
    const asked = calls.length
    for (let n = 0; n < 10; n++)
      waiting.push(failure(manyKeyed(client, `mine ${n}`, 'held')), failure(keyed(client, 'held')))
    await settled(clock)
    first.open()
    await settled(clock)
    const askedByOthers = calls.length - asked
    await clock.advance(31_000)

    expect([asked, askedByOthers]).toEqual([2, 0])
    expect((await Promise.all(waiting)).every(({ details }) => details.written === 'no')).toBe(true)
  })

  test('is waited for by an enqueueMany until the last of its keys is free, and then it is written as a whole', async () => {
    const held = new Set(['one', 'two'])
    const { client, clock, store } = await openFaulty({
      before(jobs) {
        const found = jobs.filter(({ idempotencyKey }) => held.has(idempotencyKey?.key ?? ''))
        if (found.length > 0) throw heldKeys(found, true)
      },
    })
    const waiting = manyKeyed(client, 'one', 'two', 'three')
    await clock.advance(500)
    held.delete('one')
    await clock.advance(500)
    const written = await count(store)
    held.delete('two')
    await clock.advance(500)

    expect(written).toBe(0)
    expect((await waiting).map(({ created }) => created)).toEqual([true, true, true])
  })

  test('is known not to be written also by an enqueueMany, which is answered at its deadline', async () => {
    const { client, clock } = await openFaulty(holdKeys())
    const errors = [failure(manyKeyed(client, 'held', 'a')), failure(manyKeyed(client, 'held', 'b'))]
    await clock.advance(30_000)

    for (const error of await Promise.all(errors)) {
      expect(error).toMatchObject({ code: 'store_unavailable', retryable: true, details: { written: 'no' } })
      expect(error.message).toContain('idempotency key "held" in queue "default" is held by a transaction')
    }
  })

  test('has room for a bounded number of jobs of enqueueMany: the next is refused, and jobs of other callers are written', async () => {
    const { client, clock } = await openFaulty(holdKeys(), { bufferJobsMax: 20 })
    const waiting = Array.from({ length: 5 }, (_, n) => failure(manyKeyed(client, 'held', `beside ${n}`)))
    await settled(clock)

    const error = await failure(manyKeyed(client, 'held', 'one too many'))
    const [stranger] = await manyKeyed(client, 'free')
    await clock.advance(31_000)

    expect(error).toMatchObject({ code: 'buffer_full', retryable: true, details: { waiting: 10 } })
    expect(error.message).toMatch(
      /^10 jobs \(40 bytes\) already wait for idempotency keys .*"held".*nothing was enqueued/,
    )
    expect(stranger?.created).toBe(true)
    expect((await Promise.all(waiting)).map(({ code }) => code)).toEqual(Array(5).fill('store_unavailable'))
  })

  test('is waited for by an enqueueMany that alone is larger than that room', async () => {
    const keys = holdKeys()
    const { client, clock } = await openFaulty(keys, { bufferJobsMax: 2 })
    const waiting = manyKeyed(client, 'held', 'a', 'b', 'c')
    await clock.advance(500)
    keys.release()
    await clock.advance(200)

    expect((await waiting).map(({ created }) => created)).toEqual([true, true, true, true])
  })

  test('is no failure of the store', async () => {
    const keys = holdKeys()
    const { client, clock, heard } = await openFaulty(keys)
    const waiting = keyed(client, 'held')
    await clock.advance(1_000)
    keys.release()
    await clock.advance(200)
    await waiting

    expect(heard.filter(({ name }) => name.startsWith('store.'))).toEqual([])
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

  test('a refusal that is about the connection reaches every call immediately', async () => {
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

  test('a call that was never sent fails with the news that nothing was written', async () => {
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
