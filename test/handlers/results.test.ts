// What a definition knows about its result.

import { describe, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { DropJob, defineJob, type JobHandle } from '../../src/index.js'
import { failure, onStores } from './stores.js'

const resize = defineJob<{ image: string }, { width: number }>('resize')
const report = defineJob('report', {
  input: z.object({ day: z.string() }),
  output: z.object({ rows: z.number(), until: z.coerce.date<string>() }),
  maxAttempts: 1,
})

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  test('enqueue gives a handle whose wait() has the type of the result', async () => {
    const { holdfast, working } = queue()

    const result = await working([resize.handle(async () => ({ width: 640 }))], async () => {
      const handle = await holdfast.enqueue(resize, { image: 'a.png' })
      expectTypeOf(handle).toEqualTypeOf<JobHandle<{ width: number }>>()
      return handle.wait()
    })

    expectTypeOf(result).toEqualTypeOf<{ width: number }>()
    expect(result).toEqual({ width: 640 })
  })

  test('a handle is data beside its wait()', async () => {
    const { holdfast } = queue()

    const handle = await holdfast.enqueue('nobody_runs_this', null)

    expect(JSON.parse(JSON.stringify(handle))).toEqual({ id: handle.id, created: true, state: 'ready' })
    expect(await failure(handle.wait({ timeout: 1 }))).toMatchObject({ code: 'wait_timeout' })
  })

  test('an output schema checks what the handler returns, and reads it for those who wait', async () => {
    const { holdfast, working } = queue()
    const handlers = [report.handle(async ({ day }) => ({ rows: day.length, until: '2026-11-18T00:00:00Z' }))]

    const [one, other, byId] = await working(handlers, async () => {
      const first = await holdfast.enqueue(report, { day: 'monday' })
      const [second] = await holdfast.enqueueMany(report, [{ day: 'friday' }])
      return [await first.wait(), await second!.wait(), await holdfast.wait(first.id, { job: report })] as const
    })

    expectTypeOf(one).toEqualTypeOf<{ rows: number; until: Date }>()
    expectTypeOf(byId).toEqualTypeOf<{ rows: number; until: Date }>()
    expect(one).toEqual({ rows: 6, until: new Date('2026-11-18T00:00:00Z') })
    expect(other).toEqual(one)
    expect(byId).toEqual(one)
  })

  test('each job of a mixed call is read by its own output schema', async () => {
    const { holdfast, working } = queue()
    const handlers = [
      report.handle(() => ({ rows: 1, until: '2026-11-18T00:00:00Z' })),
      resize.handle(() => ({ width: 2 })),
    ]

    const results = await working(handlers, async () => {
      const handles = await holdfast.enqueueMany([
        [report, { day: 'x' }],
        [resize, { image: 'x' }],
      ])
      return Promise.all(handles.map((handle) => handle.wait()))
    })

    expect(results).toEqual([{ rows: 1, until: new Date('2026-11-18T00:00:00Z') }, { width: 2 }])
  })

  test('an attempt whose result does not fit its schema fails', async () => {
    const { holdfast, working } = queue()
    const handlers = [report.handle(() => ({ rows: 'many' }) as never)]

    const job = await working(handlers, async () => {
      const handle = await holdfast.enqueue(report, { day: 'x' })
      await failure(handle.wait())
      return holdfast.get(handle.id)
    })

    expect(job).toMatchObject({ state: 'dead', reason: 'attempts', error: { code: 'invalid_result' } })
    expect(job!.error!.message).toMatch(/"report".*output schema: rows: .*; until: /)
  })

  test('of a batch, only the job whose result does not fit fails', async () => {
    const { holdfast, working } = queue()
    const handler = report.handleBatch({ max: 2, linger: '1s' }, (jobs) =>
      jobs.map(({ payload }) => (payload.day === 'good' ? { rows: 1, until: '2026-11-18T00:00:00Z' } : { rows: 1 })),
    )

    const [good, bad] = await working([handler], async () => {
      const handles = await holdfast.enqueueMany(report, [{ day: 'good' }, { day: 'bad' }])
      return Promise.all([handles[0]!.wait(), failure(handles[1]!.wait())])
    })

    expect(good).toMatchObject({ rows: 1 })
    expect(bad).toMatchObject({ code: 'job_dead', details: { error: { code: 'invalid_result' } } })
  })

  test('a result of an older handler that no longer fits is an error, not a value of the wrong type', async () => {
    const { holdfast, working } = queue()
    const older = defineJob<{ day: string }>('report')

    const error = await working([older.handle(() => 'forty rows')], async () => {
      const { id } = await holdfast.enqueue(older, { day: 'x' })
      return failure(holdfast.wait(id, { job: report }))
    })

    expect(error).toMatchObject({ code: 'invalid_result', details: { type: 'report' } })
  })

  test('update checks the payload against the definition it is given', async () => {
    const { holdfast } = queue()
    const { id } = await holdfast.enqueue(report, { day: 'monday' }, { delay: '1h' })

    const error = await failure(holdfast.update(id, { job: report, payload: { day: 7 } as never }))
    await holdfast.update(id, { job: report, payload: { day: 'tuesday' } })

    expect(error).toMatchObject({ code: 'invalid_payload', details: { type: 'report' } })
    expect((await holdfast.get(id))!.payload).toEqual({ day: 'tuesday' })
  })

  test('update refuses the definition of another type or version', async () => {
    const { holdfast } = queue()
    const { id } = await holdfast.enqueue(report, { day: 'monday' }, { delay: '1h' })
    const newer = defineJob<{ day: string }>('report', { version: 2 })

    const type = await failure(holdfast.update(id, { job: resize, payload: { image: 'x' } }))
    const version = await failure(holdfast.update(id, { job: newer, payload: { day: 'x' } }))

    expect(type).toMatchObject({ code: 'wrong_state', details: { id, type: 'report', version: 1 } })
    expect(version).toMatchObject({ code: 'wrong_state', details: { version: 1 } })
    expect((await holdfast.get(id))!.payload).toEqual({ day: 'monday' })
  })
})

onStores(['PostgreSQL'], (queue) => {
  test('the result that a handler gives to complete() is checked too, before its transaction commits', async () => {
    const { holdfast, working, sql } = queue()
    const db = await sql()
    const handler = report.handle(async (_payload, ctx) => {
      await db.query('BEGIN')
      try {
        const done = await ctx.complete(db, { rows: 'many' } as never)
        await db.query('COMMIT')
        return done
      } catch (error) {
        await db.query('ROLLBACK')
        throw new DropJob('rolled back', { cause: error })
      }
    })

    const error = await working([handler], async () => failure((await holdfast.enqueue(report, { day: 'x' })).wait()))

    expect(error).toMatchObject({ code: 'job_dead', details: { reason: 'dropped' } })
  })

  test('a handler that completed its job itself returns what complete() gave', async () => {
    const { holdfast, working, sql } = queue()
    const db = await sql()
    const handler = report.handle(async (_payload, ctx) => {
      await db.query('BEGIN')
      const done = await ctx.complete(db, { rows: 3, until: '2026-11-18T00:00:00Z' })
      await db.query('COMMIT')
      return done
    })

    const result = await working([handler], async () => (await holdfast.enqueue(report, { day: 'x' })).wait())

    expect(result).toEqual({ rows: 3, until: new Date('2026-11-18T00:00:00Z') })
  })
})

describe('bad input', () => {
  test('what is no schema or no definition is refused with its place', async () => {
    const { connect } = await import('../../src/index.js')
    const holdfast = await connect('memory:')

    expect(() => defineJob('x', { output: 7 as never })).toThrow(/output of "x" must be a Standard Schema.*got 7/)
    expect(
      await failure(holdfast.wait('0198f2c5-7f00-7000-8000-000000000000', { job: 'report' as never })),
    ).toMatchObject({
      code: 'invalid_option',
    })
    await holdfast.close()
  })

  test('a handler that returns another type does not compile', () => {
    // @ts-expect-error a width is a number
    resize.handle(() => ({ width: 'wide' }))
    // @ts-expect-error the result is missing
    resize.handle(async () => {})
    // @ts-expect-error a width is a number
    resize.handle(async (_payload, ctx) => ctx.complete({ query: async () => ({ rows: [] }) }, { width: 'wide' }))
    expect(resize.output).toBeNull()
  })
})
