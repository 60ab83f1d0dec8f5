// ctx.waitFor and holdfast.signal: a job leaves its slot until something happens.

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, expectTypeOf, test } from 'vitest'
import { defineJob, isHoldfastError, type JobContext, RetryJob } from '../../src/index.js'
import { testHoldfast } from '../../src/testing/index.js'
import { failure, onStores } from './stores.js'

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  let names = 0
  const newJob = (name = 'signals') => defineJob<null, unknown>(`${name}_${++names}`, { maxAttempts: 2 })

  /** Resolves when the job waits for a signal. */
  async function parked(id: string): Promise<void> {
    const { holdfast } = queue()
    while ((await holdfast.get(id))?.wait === undefined) await sleep(5)
  }

  test('a job waits without a slot, and goes on with what the signal brought', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const ran: string[] = []
    const handler = job.handle(async (_payload, ctx) => {
      const order = await ctx.step('order', () => {
        ran.push('order')
        return 7
      })
      const approval = await ctx.waitFor<{ by: string }>('approved', { timeout: '1h' })
      if (approval.timedOut) return 'nobody answered'
      expectTypeOf(approval.value).toEqualTypeOf<{ by: string }>()
      return { order, by: approval.value.by, at: approval.at instanceof Date, attempt: ctx.attempt }
    })

    const result = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, null)
      await parked(handle.id)
      expect(await holdfast.get(handle.id)).toMatchObject({ state: 'scheduled', attempt: 0, worker: null })
      expect(await holdfast.signal(handle.id, 'approved', { by: 'ada' })).toEqual({ id: handle.id, woken: true })
      return handle.wait({ timeout: '20s' })
    })

    expect(result).toEqual({ order: 7, by: 'ada', at: true, attempt: 1 })
    expect(ran).toEqual(['order'])
  })

  test('a signal that comes before the wait is kept, and a retry gets the same one', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const seen: unknown[] = []
    const handler = job.handle(async (_payload, ctx) => {
      const one = await ctx.waitFor('message')
      const two = await ctx.waitFor('message')
      seen.push([one.value, two.value])
      if (ctx.attempt === 1) throw new RetryJob('once more', { delay: 0 })
    })
    const handle = await holdfast.enqueue(job, null)
    for (const value of [1, 2, 3]) await holdfast.signal(handle.id, 'message', value)

    await working([handler], () => handle.wait({ timeout: '20s' }))

    expect(seen).toEqual([
      [1, 2],
      [1, 2],
    ])
  })

  test('a wait that nobody answers goes on at its timeout, and a late signal is for the next wait', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const handler = job.handle(async (_payload, ctx) => {
      const first = await ctx.waitFor('approved', { timeout: 200 })
      await ctx.waitFor('go on')
      const second = await ctx.waitFor('approved', { timeout: 200 })
      return [first.timedOut, second.value]
    })

    const result = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, null)
      while ((await holdfast.get(handle.id))?.wait?.name !== 'go on') await sleep(5)
      await holdfast.signal(handle.id, 'approved', 'late')
      await holdfast.signal(handle.id, 'go on')
      return handle.wait({ timeout: '20s' })
    })

    expect(result).toEqual([true, 'late'])
  })

  test('a handler that catches everything leaves its slot all the same', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const swallowed: unknown[] = []
    const handler = job.handle(async (_payload, ctx) => {
      try {
        return (await ctx.waitFor('approved')).value
      } catch (error) {
        swallowed.push((error as Error).name, await failure(ctx.step('after', () => 1)).catch(String))
        return 'swallowed'
      }
    })

    const result = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, null)
      await parked(handle.id)
      await holdfast.signal(handle.id, 'approved', 'yes')
      return handle.wait({ timeout: '20s' })
    })

    expect(result).toBe('yes')
    expect(swallowed[0]).toBe('ParkedJob')
  })

  test('steps that are under way end before the job leaves its slot', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const ran: string[] = []
    const handler = job.handle(async (_payload, ctx) => {
      const slow = ctx.step('slow', async () => {
        ran.push('slow')
        await sleep(50)
        return 1
      })
      const [step, signal] = await Promise.all([slow, ctx.waitFor('approved')])
      return [step, signal.value]
    })

    const result = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, null)
      await parked(handle.id)
      await holdfast.signal(handle.id, 'approved', 2)
      return handle.wait({ timeout: '20s' })
    })

    expect(result).toEqual([1, 2])
    expect(ran).toEqual(['slow'])
  })

  test('explain says what a job waits for, and how to send it', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const handler = job.handle((_payload, ctx) => ctx.waitFor('approved', { timeout: '2h' }))

    const [explained, listed] = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, null)
      await parked(handle.id)
      const all = [await holdfast.explain(handle.id), await holdfast.get(handle.id)] as const
      await holdfast.signal(handle.id, 'approved')
      await handle.wait({ timeout: '20s' })
      return all
    })

    expect(explained.reasons[0]).toMatchObject({ code: 'waits_for_signal', facts: { name: 'approved' } })
    expect(explained.summary).toMatch(/waited for the signal "approved" for .*; it goes on without it in (120 min|2 h)/)
    expect(explained.next[0]).toBe(`send it: holdfast.signal('${listed!.id}', "approved")`)
  })

  test('bad signals are refused with a clear error', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const handle = await holdfast.enqueue(job, null)
    const { id } = handle
    const circular: { self?: unknown } = {}
    circular.self = circular
    const codes = async (calls: readonly Promise<unknown>[]) =>
      Promise.all(calls.map(async (call) => ((await failure(call)) as { code: string }).code))

    expect(
      await codes([
        holdfast.signal('nothing', 'approved'),
        holdfast.signal(id, ''),
        holdfast.signal(id, 'x'.repeat(201)),
        holdfast.signal(id, 7 as never),
        holdfast.signal(id, 'approved', 1, { kee: 'x' } as never),
        holdfast.signal(id, 'approved', 1, { key: '' }),
        holdfast.signal(id, 'approved', 1, { by: 'tab\t' }),
      ]),
    ).toEqual(Array(7).fill('invalid_option'))
    expect(
      await codes([
        holdfast.signal(id, 'approved', circular),
        holdfast.signal(id, 'approved', 1n),
        holdfast.signal(id, 'approved', 'x'.repeat(300_000)),
      ]),
    ).toEqual(Array(3).fill('unstorable'))
    expect(await codes([holdfast.signal('01900000-0000-7000-8000-00000000ffff', 'approved')])).toEqual([
      'job_not_found',
    ])

    await working([job.handle(() => 'done')], () => handle.wait({ timeout: '20s' }))
    const late = (await failure(holdfast.signal(id, 'approved'))) as Error
    expect(isHoldfastError(late, 'wrong_state')).toBe(true)
    expect(late.message).toBe(
      `job ${id} cannot be signalled because it is succeeded: a job that has not finished can be`,
    )
  })

  test('bad waits are refused, and in a batch handler there are none', async () => {
    const { holdfast, working } = queue()
    const [job, batch] = [newJob(), newJob('batch')]
    const codeOf = async (call: Promise<unknown>) => ((await failure(call)) as { code: string }).code
    const handlers = [
      job.handle(async (_payload, ctx: JobContext) => [
        await codeOf(ctx.waitFor('')),
        await codeOf(ctx.waitFor('approved', { timeout: 'soon' as never })),
        await codeOf(ctx.waitFor('approved', { timeout: 0 })),
        await codeOf(ctx.waitFor('approved', { timeout: '400d' })),
        await codeOf(ctx.waitFor('approved', { timeoutt: '1s' } as never)),
      ]),
      batch.handleBatch({ max: 2 }, (jobs) => Promise.all(jobs.map(({ ctx }) => codeOf(ctx.waitFor('approved'))))),
    ]

    const results = await working(handlers, async () => [
      await (await holdfast.enqueue(job, null)).wait({ timeout: '20s' }),
      await (await holdfast.enqueue(batch, null)).wait({ timeout: '20s' }),
    ])

    expect(results).toEqual([Array(5).fill('invalid_option'), 'unsupported'])
  })
})

test('with the clock in the hands of a test, a wait of a week is over immediately', async () => {
  await using queue = await testHoldfast()
  const job = defineJob<null, unknown>('week')
  const { id } = await queue.holdfast.enqueue(job, null)

  const done = await queue.drain([job.handle(async (_payload, ctx) => (await ctx.waitFor('approved')).timedOut)], {
    until: 'finished',
  })

  expect(done.map((view) => [view.id, view.result])).toEqual([[id, true]])
  expect(queue.clock.now()).toBeGreaterThan(Date.UTC(2026, 0, 22, 11))
})
