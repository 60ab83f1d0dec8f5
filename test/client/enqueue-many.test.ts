import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../../src/client/define-job.js'
import type { NewJob } from '../../src/core/job.js'
import { count, failure, faultyEnqueue, gate, openClient, settled, unavailable } from './support.js'

const ID = '0190a3c2-7b1e-7c2d-8e4f-1a2b3c4d5e6f'
const add = defineJob('add', { input: z.object({ n: z.number() }), queue: 'sums' })
const note = defineJob<string>('note')

describe('enqueueMany', () => {
  test('writes the payloads of one definition in one call, in order', async () => {
    const calls: (readonly NewJob[])[] = []
    const { client, store } = await openClient({ between: (inner) => faultyEnqueue(inner, {}, calls) })

    const answers = await client.enqueueMany(add, [{ n: 1 }, { n: 2 }, { n: 3 }], { priority: 4 })

    expect(calls).toHaveLength(1)
    expect(answers.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready'])
    const jobs = await Promise.all(answers.map(({ id }) => store.get(id)))
    expect(jobs.map((job) => job?.payload)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(jobs.every((job) => job?.priority === 4 && job.queue === 'sums')).toBe(true)
  })

  test('writes a mix, each with its own options', async () => {
    const { client, store } = await openClient()

    const answers = await client.enqueueMany([
      [add, { n: 1 }, { idempotencyKey: 'once' }],
      [note, 'hello', { delay: '1m' }],
      ['anything', null],
      [add, { n: 2 }, { idempotencyKey: 'once' }],
    ])

    expect(answers.map(({ created, state }) => [created, state])).toEqual([
      [true, 'ready'],
      [true, 'scheduled'],
      [true, 'ready'],
      [false, 'ready'],
    ])
    expect(answers[3]?.id).toBe(answers[0]?.id)
    expect(await count(store)).toBe(3)
  })

  test('takes five thousand in one call', async () => {
    const { client } = await openClient()

    const answers = await client.enqueueMany(
      note,
      Array.from({ length: 5_000 }, (_, n) => String(n)),
    )

    expect(new Set(answers.map(({ id }) => id)).size).toBe(5_000)
    expect((await client.stats()).ready).toBe(5_000)
  })

  test('of nothing is nothing', async () => {
    const { client } = await openClient()

    expect(await client.enqueueMany(note, [])).toEqual([])
    expect(await client.enqueueMany([])).toEqual([])
  })

  test('tells upkeep about every time it set', async () => {
    const { client, timed } = await openClient()

    await client.enqueueMany([
      [note, 'a', { delay: '1m' }],
      [note, 'b'],
      [note, 'c', { delay: '2m' }],
    ])

    expect(timed).toEqual([60_000, 120_000])
  })

  test('is tried again with the same ids when the answer is lost', async () => {
    let isLost = true
    const calls: (readonly NewJob[])[] = []
    const { client, store, clock } = await openClient({
      between: (inner) =>
        faultyEnqueue(
          inner,
          {
            after() {
              if (!isLost) return
              isLost = false
              throw unavailable()
            },
          },
          calls,
        ),
    })

    const answers = client.enqueueMany(note, ['a', 'b'])
    await clock.advance(5_000)

    expect((await answers).map(({ created }) => created)).toEqual([true, true])
    expect(calls[0]).toEqual(calls[1])
    expect(await count(store)).toBe(2)
  })

  test('gives up after the timeout', async () => {
    const { client, clock } = await openClient({
      between: (inner) =>
        faultyEnqueue(inner, {
          before() {
            throw unavailable()
          },
        }),
    })

    const error = failure(client.enqueueMany(note, ['a', 'b']))
    await clock.advance(31_000)

    expect(await error).toMatchObject({ code: 'store_unavailable', details: { written: 'unknown' } })
    expect((await error).message).toContain('did not confirm 2 jobs within 30s')
  })

  test.each([
    ['without keys', {}],
    ['with keys', { idempotencyKey: 'k' }],
  ])('%s is answered at its deadline, and in doubt, when the store does not answer', async (_, options) => {
    const { client, clock } = await openClient({
      between: (inner) => faultyEnqueue(inner, { before: () => new Promise(() => {}) }),
    })

    const error = failure(client.enqueueMany([['a', null, options]]))
    await clock.advance(30_000)

    expect(await error).toMatchObject({ code: 'store_unavailable', details: { written: 'unknown' } })
  })

  test('is not tried again after its deadline', async () => {
    const calls: (readonly NewJob[])[] = []
    const late = gate()
    const { client, clock } = await openClient({
      between: (inner) =>
        faultyEnqueue(
          inner,
          {
            async before() {
              await late.opened
              throw unavailable()
            },
          },
          calls,
        ),
    })
    const error = failure(client.enqueueMany(note, ['a']))
    await clock.advance(30_000)
    await error
    late.open()
    await clock.advance(5_000)

    expect(calls).toHaveLength(1)
  })

  test.each([
    ['without keys', {}],
    ['with keys', { idempotencyKey: 'k' }],
  ])('%s that is under way is waited for by close()', async (_, options) => {
    const answer = gate()
    const { client, clock } = await openClient({
      between: (inner) => faultyEnqueue(inner, { after: () => answer.opened }),
    })
    const written = client.enqueueMany([['a', null, options]])
    await settled(clock)
    let isClosed = false
    const closing = client.close().then(() => {
      isClosed = true
    })
    await settled(clock)
    const wasClosed = isClosed
    answer.open()
    await closing

    expect(wasClosed).toBe(false)
    expect((await written).map(({ created }) => created)).toEqual([true])
  })

  test('with keys is sent while the one before it is under way, when it is large, so that the store is not idle', async () => {
    const calls: (readonly NewJob[])[] = []
    const answer = gate()
    const { client, clock } = await openClient({
      between: (inner) => faultyEnqueue(inner, { before: () => answer.opened }, calls),
    })
    const large = (name: string) =>
      client.enqueueMany(Array.from({ length: 100 }, (_, n) => ['a', n, { idempotencyKey: `${name} ${n}` }] as const))
    const first = large('first')
    await settled(clock)
    const second = large('second')
    await settled(clock)
    const sent = calls.length
    answer.open()

    expect(sent).toBe(2)
    expect((await Promise.all([first, second])).flat().every(({ created }) => created)).toBe(true)
  })

  test('whose payloads are still being checked at close() is refused, and nothing is written', async () => {
    const check = gate()
    const slow = defineJob('slow', { input: z.string().refine(() => check.opened.then(() => true)) })
    const { client, store } = await openClient()
    const waiting = failure(client.enqueueMany(slow, ['a']))
    await client.close()
    check.open()

    expect(await waiting).toMatchObject({ code: 'closed' })
    expect(await count(store)).toBe(0)
  })

  test('a signal ends the tries', async () => {
    const abort = new AbortController()
    const { client, clock } = await openClient({
      between: (inner) =>
        faultyEnqueue(inner, {
          before() {
            throw unavailable()
          },
        }),
    })

    const error = failure(client.enqueueMany(note, ['a'], { signal: abort.signal }))
    await clock.advance(100)
    abort.abort()

    expect(await error).toMatchObject({ code: 'aborted', details: { written: 'unknown' } })
  })
})

describe('enqueueMany refuses', () => {
  test('more than one transaction should hold, and says to cut it', async () => {
    const { client, store } = await openClient()

    const error = await failure(client.enqueueMany(note, Array(5_001).fill('x')))

    expect(error.code).toBe('invalid_option')
    expect(error.message).toMatch(/at most 5000 jobs, because one call is one transaction, got 5001: cut them/)
    expect(await count(store)).toBe(0)
  })

  test('more bytes than one call should hold', async () => {
    const { client, store } = await openClient()
    const payload = 'x'.repeat(1_000_000)

    const error = await failure(client.enqueueMany(note, Array(70).fill(payload)))

    expect(error.code).toBe('payload_too_large')
    expect(error.message).toMatch(/67108864 bytes.*cut them into several calls/)
    expect(await count(store)).toBe(0)
  })

  test('all of them when one payload does not fit, and says which', async () => {
    const { client, store } = await openClient()

    const error = await failure(client.enqueueMany(add, [{ n: 1 }, { n: 'two' as never }, { n: 3 }]))

    expect(error).toMatchObject({ code: 'invalid_payload', details: { index: 1 } })
    expect(error.message).toMatch(/^job 1 of enqueueMany \(nothing was enqueued\): .*n: /)
    expect(await count(store)).toBe(0)
  })

  test('one idempotency key for many', async () => {
    const { client } = await openClient()

    const error = await failure(client.enqueueMany(note, ['a'], { idempotencyKey: 'k' } as never))

    expect(error.code).toBe('invalid_option')
    expect(error.message).toContain('names one job')
  })

  test('a transaction for a part of the call', async () => {
    const { client } = await openClient()

    const error = await failure(client.enqueueMany([[note, 'a', { tx: {} } as never]]))

    expect(error.code).toBe('invalid_option')
    expect(error.message).toContain('belong to the call as a whole')
  })

  test('payloads that are no list, and entries that are none', async () => {
    const { client, store } = await openClient()

    const errors = await Promise.all([
      failure(client.enqueueMany(note, 'abc' as never)),
      failure(client.enqueueMany(['note', 'a'] as never)),
      failure(client.enqueueMany([[note, 'a']], { delay: 5 } as never)),
    ])

    expect(errors.map(({ code }) => code)).toEqual(['invalid_option', 'invalid_option', 'invalid_option'])
    expect(await count(store)).toBe(0)
  })

  test('just the jobs whose parent does not exist, and lists the others', async () => {
    const { client, store } = await openClient()

    const error = await failure(
      client.enqueueMany([
        [note, 'a'],
        [note, 'b', { after: ID }],
        [note, 'c'],
      ]),
    )

    expect(error.code).toBe('unknown_parent')
    expect(error.message).toContain(`job 1 of enqueueMany was not enqueued: it comes after job ${ID}`)
    expect(error.details.unknown).toEqual([{ index: 1, id: expect.any(String), parent: ID }])
    expect(error.details.enqueued).toHaveLength(2)
    expect(await count(store)).toBe(2)
  })
})
