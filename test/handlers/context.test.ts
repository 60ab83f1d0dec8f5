// What a handler knows about where its job comes from, and what it can do with the connection it runs on.

import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineJob, type Holdfast, type JobContext } from '../../src/index.js'
import { failure, onStores } from './stores.js'

const order = defineJob<{ order: number }, string>('order')
const receipt = defineJob<{ order: number }, string>('receipt')

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  test('a handler enqueues jobs that know which job enqueued them', async () => {
    const { holdfast, working } = queue()
    let seen: string | null = null
    const handlers = [
      order.handle(async (payload, { enqueue }) => (await enqueue(receipt, payload, { tags: ['child'] })).id),
      receipt.handle((_payload, ctx) => {
        seen = ctx.enqueuedBy
        return 'sent'
      }),
    ]

    const [parent, child] = await working(handlers, async () => {
      const handle = await holdfast.enqueue(order, { order: 1 })
      const childId = await handle.wait()
      await holdfast.wait(childId, { job: receipt })
      return [await holdfast.get(handle.id), await holdfast.get(childId)] as const
    })

    expect(child).toMatchObject({ type: 'receipt', payload: { order: 1 }, tags: ['child'], enqueuedBy: parent!.id })
    expect(seen).toBe(parent!.id)
    expect(parent).not.toHaveProperty('enqueuedBy')
  })

  test('a handler has the connection of its worker', async () => {
    const { holdfast, working } = queue()
    let given: Holdfast | null = null
    const handler = order.handle(async (_payload, ctx) => {
      given = ctx.holdfast
      return (await ctx.holdfast.get(ctx.id))!.state
    })

    const state = await working([handler], async () => (await holdfast.enqueue(order, { order: 1 })).wait())

    expect(given).toBe(holdfast)
    expect(state).toBe('running')
  })

  test('a job of a schedule knows its schedule and tick', async () => {
    const { holdfast, working } = queue()
    const nightly = defineJob<null>('nightly')
    let made: JobContext['schedule'] = null
    let resolve!: (id: string) => void
    const promise = new Promise<string>((found) => {
      resolve = found
    })
    const handler = nightly.handle((_payload, ctx) => {
      made = ctx.schedule
      resolve(ctx.id)
    })

    const job = await working([handler], async () => {
      await holdfast.schedule('every-second', { cron: '* * * * * *', job: nightly, payload: null })
      const id = await promise
      await holdfast.unschedule('every-second')
      return holdfast.get(id)
    })

    expect(made).toEqual(job!.schedule)
    expect(made!.name).toBe('every-second')
    expect(made!.tick.getMilliseconds()).toBe(0)
  })

  test('a handler gets the results of the jobs before it, with their types', async () => {
    const { holdfast, working } = queue()
    const count = defineJob<{ n: number }, number>('count')
    const when = defineJob('when', { output: z.object({ at: z.coerce.date<string>() }) })
    const sum = defineJob<null, unknown>('sum')
    const parentsSeen: (readonly string[])[] = []
    const handlers = [
      count.handle(({ n }) => n),
      when.handle(() => ({ at: '2026-11-18T00:00:00Z' })),
      sum.handle(async (_payload, ctx) => {
        parentsSeen.push(ctx.parents)
        const [one, two, at] = await ctx.parentResults([count, count, when])
        expectTypeOf(one).toEqualTypeOf<number | null>()
        expectTypeOf(at).toEqualTypeOf<{ at: Date } | null>()
        return { sum: one! + two!, at: at!.at instanceof Date, raw: await ctx.parentResults() }
      }),
    ]

    const [result, parents] = await working(handlers, async () => {
      const counts = await holdfast.enqueueMany(count, [{ n: 2 }, { n: 3 }])
      const last = await holdfast.enqueue(when, null)
      const after = [...counts, last].map(({ id }) => id)
      return [await (await holdfast.enqueue(sum, null, { after })).wait(), after] as const
    })

    expect(result).toEqual({ sum: 5, at: true, raw: [2, 3, { at: '2026-11-18T00:00:00Z' }] })
    expect(parentsSeen).toEqual([parents])
  })

  test('a parent that died has no result, and runs with one definition for all are typed too', async () => {
    const { holdfast, working } = queue()
    const flaky = defineJob<{ fail: boolean }, number>('flaky', { maxAttempts: 1 })
    const gather = defineJob<null, readonly (number | null)[]>('gather')
    const handlers = [
      flaky.handle(({ fail }) => {
        if (fail) throw new Error('no')
        return 7
      }),
      gather.handle((_payload, ctx) => ctx.parentResults(flaky)),
    ]

    const result = await working(handlers, async () => {
      const parents = await holdfast.enqueueMany(flaky, [{ fail: true }, { fail: false }])
      const after = parents.map(({ id }) => id)
      return (await holdfast.enqueue(gather, null, { after, onParentDead: 'run' })).wait()
    })

    expect(result).toEqual([null, 7])
  })

  test('parentResults refuses what are not the definitions of its parents', async () => {
    const { holdfast, working } = queue()
    const child = defineJob<null, string[]>('child')
    const handler = child.handle(async (_payload, ctx) => {
      const errors = [failure(ctx.parentResults([order])), failure(ctx.parentResults('order' as never))]
      return (await Promise.all(errors)).map((error) => (error as Error).message)
    })

    const messages = await working([handler], async () => (await holdfast.enqueue(child, null)).wait())

    expect(messages[0]).toMatch(/one definition for each of the 0 jobs.*got 1/)
    expect(messages[1]).toMatch(/takes what defineJob\(…\) gives.*got "order"/)
  })

  test('an attempt finds the progress of the one before it', async () => {
    const { holdfast, working } = queue()
    const walk = defineJob<null, unknown[]>('walk', { retry: { backoff: 'fixed', base: 1 } })
    const found: unknown[] = []
    const handler = walk.handle(async (_payload, ctx) => {
      found.push(await ctx.lastProgress<{ page: number }>())
      ctx.progress({ page: ctx.attempt * 10 })
      if (ctx.attempt < 3) throw new Error('again')
      return found
    })

    const result = await working([handler], async () => (await holdfast.enqueue(walk, null)).wait())

    expect(result).toEqual([null, { page: 10 }, { page: 20 }])
  })

  test('an id that is none cannot have enqueued a job', async () => {
    const { holdfast } = queue()

    expect(await failure(holdfast.enqueue(order, { order: 1 }, { enqueuedBy: 'me' }))).toMatchObject({
      code: 'invalid_option',
    })
  })
})

onStores(['PostgreSQL'], (queue) => {
  test('a child that a handler enqueues in its transaction exists exactly if that commits', async () => {
    const { holdfast, working, sql } = queue()
    const db = await sql()
    const handler = order.handle(async (payload, ctx) => {
      await db.query('BEGIN')
      const rolledBack = await ctx.enqueue(receipt, payload, { tx: db })
      await db.query('ROLLBACK')
      await db.query('BEGIN')
      const kept = await ctx.enqueue(receipt, payload, { tx: db })
      await db.query('COMMIT')
      return `${rolledBack.id} ${kept.id}`
    })

    const [parent, ids] = await working([handler], async () => {
      const handle = await holdfast.enqueue(order, { order: 2 })
      return [handle.id, (await handle.wait()).split(' ')] as const
    })

    expect(await holdfast.get(ids[0]!)).toBeNull()
    expect(await holdfast.get(ids[1]!)).toMatchObject({ state: 'ready', enqueuedBy: parent })
  })
})
