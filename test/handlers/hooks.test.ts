// Where a program hangs its error reporting: events by name, hooks of a definition, code around enqueues and runs.

import { describe, expect, expectTypeOf, test } from 'vitest'
import { connect, DropJob, defineJob, type EventNamed, type JobFailure, type JobHandle } from '../../src/index.js'
import { failure, onStores } from './stores.js'

class CardError extends Error {
  override readonly name = 'CardError'
}

const charge = defineJob<{ order: number }>('charge', {
  maxAttempts: 2,
  retry: { backoff: 'fixed', base: 1, jitter: false },
})

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  test('a listener for dead jobs gets the very error that the handler threw', async () => {
    const { holdfast, working } = queue()
    const thrown = new CardError('declined')
    const dead: EventNamed<'job.dead'>[] = []
    const retried: EventNamed<'job.retrying'>[] = []
    const offs = [
      holdfast.on('job.dead', (event) => {
        expectTypeOf(event.error).toEqualTypeOf<Error | null>()
        dead.push(event)
      }),
      holdfast.on('job.retrying', (event) => void retried.push(event)),
    ]
    const handler = charge.handle(() => {
      throw thrown
    })

    const id = await working([handler], async () => {
      const handle = await holdfast.enqueue(charge, { order: 1 })
      await failure(handle.wait())
      return handle.id
    })
    for (const off of offs) off()

    expect(dead).toEqual([
      { name: 'job.dead', id, type: 'charge', queue: 'default', reason: 'attempts', error: thrown },
    ])
    expect(dead[0]!.error).toBe(thrown)
    expect(retried).toMatchObject([{ name: 'job.retrying', id, delayMs: 1 }])
  })

  test('one listener takes several names and nothing else, until it is ended', async () => {
    const { holdfast, working } = queue()
    const names: string[] = []
    const off = holdfast.on(['job.succeeded', 'enqueue.answered'], ({ name }) => void names.push(name))

    await working([charge.handle(() => 1)], async () => (await holdfast.enqueue(charge, { order: 1 })).wait())
    off()
    await holdfast.enqueue('nobody_runs_this', null)

    expect(names).toEqual(['enqueue.answered', 'job.succeeded'])
  })

  test('onRetry and onDead of a definition are called once each, when the store has confirmed', async () => {
    const { holdfast, working } = queue()
    const failures: JobFailure[] = []
    const states: (string | undefined)[] = []
    const both = defineJob<{ order: number }>('hooked', {
      maxAttempts: 2,
      retry: { backoff: 'fixed', base: 1, jitter: false },
      onRetry: (failed) => failures.push(failed),
      onDead: async (failed) => {
        failures.push(failed)
        states.push((await holdfast.get(failed.id))?.state)
      },
    })
    const handler = both.handle((_payload, ctx) => {
      throw new CardError(`attempt ${ctx.attempt}`)
    })

    await working([handler], async () => failure((await holdfast.enqueue(both, { order: 7 })).wait()))

    expect(
      failures.map(({ attempt, reason, retryInMs, error, payload }) => [
        attempt,
        reason,
        retryInMs,
        error!.message,
        payload,
      ]),
    ).toEqual([
      [1, null, 1, 'attempt 1', { order: 7 }],
      [2, 'attempts', null, 'attempt 2', { order: 7 }],
    ])
    expect(failures[1]!.error).toBeInstanceOf(CardError)
    await expect.poll(() => states).toEqual(['dead'])
  })

  test('a worker has hooks for the failures of all its jobs, called after those of a definition', async () => {
    const { holdfast } = queue()
    const calls: string[] = []
    const own = defineJob<null>('own_hook', { onDead: () => calls.push('definition') })
    const drop = own.handle(() => {
      throw new DropJob('no')
    })
    const decline = charge.handle(() => {
      throw new CardError('declined')
    })
    const worker = holdfast.worker({
      handlers: [drop, decline],
      onRetry: ({ type, attempt }) => calls.push(`${type} is retried after attempt ${attempt}`),
      onDead: ({ type, reason, payload }) => calls.push(`${type} is dead: ${reason} ${JSON.stringify(payload)}`),
    })
    await worker.start()

    await failure((await holdfast.enqueue(own, null)).wait())
    await failure((await holdfast.enqueue(charge, { order: 7 })).wait())
    await worker.stop()

    expect(calls).toEqual([
      'definition',
      'own_hook is dead: dropped null',
      'charge is retried after attempt 1',
      'charge is dead: attempts {"order":7}',
    ])
  })

  test('a hook that throws changes nothing and is reported', async () => {
    const { holdfast, working } = queue()
    const reports: EventNamed<'hook.failed'>[] = []
    const off = holdfast.on('hook.failed', (event) => void reports.push(event))
    const broken = defineJob<null>('broken_hook', {
      onDead: () => {
        throw new Error('the reporter is down')
      },
    })

    const job = await working(
      [
        broken.handle(() => {
          throw new DropJob('no')
        }),
      ],
      async () => {
        const { id, wait: _ } = await holdfast.enqueue(broken, null)
        await failure(holdfast.wait(id))
        return holdfast.get(id)
      },
    )
    off()

    expect(job).toMatchObject({ state: 'dead', reason: 'dropped' })
    expect(reports).toMatchObject([{ hook: 'onDead', jobId: job!.id, jobType: 'broken_hook' }])
    expect(reports[0]!.error.message).toBe('the reporter is down')
  })
})

describe('use', () => {
  test('puts code around every run, the first one outermost, which sees what the handler throws', async () => {
    const holdfast = await connect('memory:')
    const order: string[] = []
    holdfast
      .use({
        run: async (ctx, next) => {
          order.push(`outer ${ctx.type}`)
          try {
            return await next()
          } catch (error) {
            order.push(`saw ${(error as Error).message}`)
            throw error
          }
        },
      })
      .use({ run: async (_ctx, next, payload) => ({ payload, inner: await next() }) })
    const worker = holdfast.worker({
      handlers: [
        charge.handle(({ order: number }) => {
          if (number === 2) throw new DropJob('declined')
          return 'charged'
        }),
      ],
    })
    await worker.start()

    const result = await (await holdfast.enqueue(charge, { order: 1 })).wait()
    const error = await failure((await holdfast.enqueue(charge, { order: 2 })).wait())
    await holdfast.close()

    expect(result).toEqual({ payload: { order: 1 }, inner: 'charged' })
    expect(error).toMatchObject({ code: 'job_dead', details: { reason: 'dropped' } })
    expect(order).toEqual(['outer charge', 'outer charge', 'saw declined'])
  })

  test('puts code around every enqueue, of one job and of many, and may change what is enqueued', async () => {
    const holdfast = await connect('memory:')
    const counts: number[] = []
    holdfast.use({
      enqueue: async (call, next) => {
        counts.push(call.jobs.length)
        return next({ jobs: call.jobs.map((job) => ({ ...job, options: { ...job.options, tags: ['tenant-a'] } })) })
      },
    })

    const one: JobHandle = await holdfast.enqueue(charge, { order: 1 }, { priority: 3 })
    const same = await holdfast.enqueueMany(charge, [{ order: 2 }, { order: 3 }], { queue: 'slow' })
    const mixed = await holdfast.enqueueMany([
      [charge, { order: 4 }],
      ['other', null, { priority: 1 }],
    ])
    const jobs = await Promise.all([one, ...same, ...mixed].map(({ id }) => holdfast.get(id)))
    await holdfast.close()

    expect(counts).toEqual([1, 2, 2])
    expect(jobs.every((job) => job!.tags.includes('tenant-a'))).toBe(true)
    expect(jobs.map((job) => [job!.type, job!.queue, job!.priority])).toEqual([
      ['charge', 'default', 3],
      ['charge', 'slow', 0],
      ['charge', 'slow', 0],
      ['charge', 'default', 0],
      ['other', 'default', 1],
    ])
  })

  test('jobs that handlers enqueue go through it too', async () => {
    const holdfast = await connect('memory:')
    const types: unknown[] = []
    holdfast.use({
      enqueue: (call, next) => {
        types.push(...call.jobs.map(({ job }) => (typeof job === 'string' ? job : job.type)))
        return next(call)
      },
    })
    const worker = holdfast.worker({ handlers: [charge.handle((_payload, ctx) => ctx.enqueue('receipt', null))] })
    await worker.start()

    await (await holdfast.enqueue(charge, { order: 1 })).wait()
    await holdfast.close()

    expect(types).toEqual(['charge', 'receipt'])
  })

  test('a middleware that drops a job, or gives something else, is refused, and nothing is enqueued by the first', async () => {
    const holdfast = await connect('memory:')
    holdfast.use({ enqueue: async (_call, next) => next({ jobs: [] }) })
    const other = await connect('memory:')
    other.use({ enqueue: async () => 'done' as never })

    const dropped = await failure(holdfast.enqueue(charge, { order: 1 }))
    const strange = await failure(other.enqueue(charge, { order: 1 }))
    const { count } = await holdfast.count()
    await Promise.all([holdfast.close(), other.close()])

    expect(dropped).toMatchObject({ code: 'invalid_option', message: expect.stringMatching(/as many jobs, 1/) })
    expect(strange).toMatchObject({
      code: 'invalid_option',
      message: expect.stringMatching(/what next\(\) gave.*"done"/),
    })
    expect(count).toBe(0)
  })

  test('what is no middleware, no hook and no event is refused', async () => {
    const holdfast = await connect('memory:')

    expect(() => holdfast.use({})).toThrow(/enqueue, run or both/)
    expect(() => holdfast.use({ run: 7 as never })).toThrow(/run must be a function, got 7/)
    expect(() => holdfast.use({ after: () => {} } as never)).toThrow(/after/)
    expect(() => holdfast.on('job.died' as never, () => {})).toThrow(/name of an event.*"job.died"/)
    expect(() => holdfast.on('job.dead', undefined as never)).toThrow(/listener must be a function/)
    expect(() => defineJob('x', { onDead: 'page me' as never })).toThrow(/onDead of "x" must be a function/)
    const handlers = [charge.handle(() => {})]
    expect(() => holdfast.worker({ handlers, onDead: 'page me' as never })).toThrow(/onDead must be a function/)
    await holdfast.close()
  })
})
