import { describe, expect, test } from 'vitest'
import { DropJob, defineJob, RetryJob } from '../../src/index.js'
import { assertEnqueued, assertNotEnqueued, testHoldfast } from '../../src/testing/index.js'

const add = defineJob<{ n: number }>('add', { retry: { backoff: 'fixed', base: '10s', jitter: false } })
const note = defineJob<{ text: string; about?: { id: number } }>('note', { queue: 'notes' })

describe('drain', () => {
  test('runs what is due and resolves with what finished, in order', async () => {
    const { holdfast, drain, close } = await testHoldfast()
    await holdfast.enqueueMany(add, [{ n: 1 }, { n: 2 }])
    await holdfast.enqueue(add, { n: 3 }, { priority: 5 })

    const jobs = await drain([add.handle(({ n }) => n * 10)])

    expect(jobs.map(({ state, result }) => [state, result])).toEqual([
      ['succeeded', 30],
      ['succeeded', 10],
      ['succeeded', 20],
    ])
    await close()
  })

  test('of an empty queue is nothing', async () => {
    const { drain, close } = await testHoldfast()

    expect(await drain([add.handle(() => {})])).toEqual([])
    await close()
  })

  test('runs jobs that jobs make, also in queues that were not there, and chains', async () => {
    const { holdfast, drain, close } = await testHoldfast()
    const parent = await holdfast.enqueue(add, { n: 1 })
    await holdfast.enqueue(note, { text: 'after' }, { after: parent.id })
    const texts: string[] = []

    const jobs = await drain([
      add.handle(async () => {
        await holdfast.enqueue(note, { text: 'inside' }, { queue: 'brand-new' })
      }),
      note.handle(({ text }) => {
        texts.push(text)
      }),
    ])

    expect(texts.sort()).toEqual(['after', 'inside'])
    expect(jobs).toHaveLength(3)
    await close()
  })

  test('leaves a retry for later, and goes through every backoff when asked to finish', async () => {
    const { holdfast, clock, drain, close } = await testHoldfast()
    const startedAt = clock.now()
    const { id } = await holdfast.enqueue(add, { n: 1 })
    const handlers = [
      add.handle((_, { attempt }) => {
        if (attempt < 3) throw new Error('not yet')
        return attempt
      }),
    ]

    const idle = await drain(handlers)
    const stateWhenIdle = (await holdfast.get(id))?.state
    const finished = await drain(handlers, { until: 'finished' })

    expect(idle).toEqual([])
    expect(stateWhenIdle).toBe('retrying')
    expect(finished).toMatchObject([{ id, state: 'succeeded', result: 3 }])
    expect(clock.now() - startedAt).toBe(20_000)
    await close()
  })

  test('runs timed jobs when the clock has come to them', async () => {
    const { holdfast, clock, drain, close } = await testHoldfast()
    await holdfast.enqueue(add, { n: 1 }, { delay: '1h' })
    const handlers = [add.handle(() => 'ran')]

    const early = await drain(handlers)
    await clock.advance(3_600_000)
    const late = await drain(handlers)

    expect([early.length, late.length]).toEqual([0, 1])
    await close()
  })

  test('fires schedules whose time has come', async () => {
    const { holdfast, clock, drain, close } = await testHoldfast()
    await holdfast.schedule('hourly', { cron: '0 * * * *', job: add, payload: { n: 1 } })

    await clock.advance(3_600_000)
    const jobs = await drain([add.handle(({ n }) => n)])

    expect(jobs).toMatchObject([{ schedule: { name: 'hourly', tick: new Date('2026-01-15T13:00:00Z') } }])
    await close()
  })

  test('shows dropped, snoozed and retried jobs as they are in production', async () => {
    const { holdfast, drain, close } = await testHoldfast()
    await holdfast.enqueue(add, { n: 1 })
    await holdfast.enqueue(note, { text: 'again' })

    const jobs = await drain(
      [
        add.handle(() => {
          throw new DropJob('no use')
        }),
        note.handle((_, { attempt }) => {
          if (attempt === 1) throw new RetryJob('busy', { delay: '90s' })
        }),
      ],
      { until: 'finished' },
    )

    expect(jobs).toMatchObject([
      { type: 'add', state: 'dead', reason: 'dropped' },
      { type: 'note', state: 'succeeded', attempt: 2 },
    ])
    await close()
  })

  test('leaves jobs of types without a handler alone', async () => {
    const { holdfast, drain, close } = await testHoldfast()
    await holdfast.enqueue(note, { text: 'x' })

    const jobs = await drain([add.handle(() => {})], { until: 'finished' })

    expect(jobs).toEqual([])
    await assertEnqueued(holdfast, note, { state: 'ready' })
    await close()
  })

  test('gives up on jobs that never end', async () => {
    const { holdfast, drain, close } = await testHoldfast()
    await holdfast.enqueue(add, { n: 1 })
    const handlers = [
      add.handle(async ({ n }) => {
        await holdfast.enqueue(add, { n: n + 1 })
      }),
    ]

    await expect(drain(handlers, { runsMax: 50 })).rejects.toMatchObject({
      code: 'aborted',
      message: expect.stringMatching(/^drain ran 51 jobs and there are more/),
    })
    await close()
  })

  test('refuses an unknown option', async () => {
    const { drain, close } = await testHoldfast()

    await expect(drain([], { untill: 'idle' } as never)).rejects.toMatchObject({ code: 'invalid_option' })
    await close()
  })
})

describe('assertEnqueued', () => {
  test('resolves with the jobs that match a part of the payload', async () => {
    const { holdfast, close } = await testHoldfast()
    await holdfast.enqueue(note, { text: 'a', about: { id: 7 } }, { tags: ['x', 'y'] })
    await holdfast.enqueue(note, { text: 'b' })

    const jobs = await assertEnqueued(holdfast, note, { payload: { about: { id: 7 } }, queue: 'notes', tags: ['y'] })

    expect(jobs).toMatchObject([{ payload: { text: 'a' } }])
    await close()
  })

  test('says what there is instead', async () => {
    const { holdfast, close } = await testHoldfast()
    await holdfast.enqueue(note, { text: 'b' })
    await holdfast.enqueue(add, { n: 1 }, { delay: '1h' })

    const error = await assertEnqueued(holdfast, note, { payload: { text: 'a' } }).catch((thrown: Error) => thrown)

    expect(error).toMatchObject({ name: 'AssertionError', code: 'ERR_ASSERTION' })
    expect((error as Error).message).toBe(
      [
        'expected a job "note" like {"payload":{"text":"a"}} to be enqueued, found none',
        'what there is, oldest first:',
        '  note in notes, ready: {"text":"b"}',
        '  add in default, scheduled: {"n":1}',
      ].join('\n'),
    )
    await close()
  })

  test('counts when a number is given', async () => {
    const { holdfast, close } = await testHoldfast()
    await holdfast.enqueueMany(add, [{ n: 1 }, { n: 2 }])

    await assertEnqueued(holdfast, add, { count: 2 })
    await expect(assertEnqueued(holdfast, add, { count: 3 })).rejects.toThrow('expected exactly 3 jobs "add"')
    await expect(assertNotEnqueued(holdfast, add)).rejects.toThrow(
      'expected exactly 0 jobs "add" to be enqueued, found 2',
    )
    await assertNotEnqueued(holdfast, add, { payload: { n: 3 } })
    await close()
  })

  test('of an empty store says that there is none', async () => {
    const { holdfast, close } = await testHoldfast()

    await expect(assertEnqueued(holdfast, add)).rejects.toThrow('nothing was enqueued')
    await close()
  })
})

test('two queues with one seed make the same ids', async () => {
  const ids = await Promise.all(
    [7, 7, 8].map(async (seed) => {
      const { holdfast, close } = await testHoldfast({ seed })
      const { id } = await holdfast.enqueue(add, { n: 1 })
      await close()
      return id
    }),
  )

  expect(ids[0]).toBe(ids[1])
  expect(ids[0]).not.toBe(ids[2])
})
