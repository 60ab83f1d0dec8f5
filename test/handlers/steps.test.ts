// ctx.step and ctx.once: what an attempt has finished is not done again by the next.

import { expect, expectTypeOf, test } from 'vitest'
import { DropJob, defineJob, isHoldfastError, type JobContext, RetryJob } from '../../src/index.js'
import { failure, onStores } from './stores.js'

const AGAIN = { delay: 0 } as const

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  let names = 0
  const newJob = () => defineJob<{ n: number }>(`steps_${++names}`)
  /** Runs one job with this handler to its end, and returns its result. */
  async function run(handler: (ctx: JobContext) => unknown): Promise<unknown> {
    const job = newJob()
    const { holdfast, working } = queue()
    return working([job.handle((_payload, ctx) => handler(ctx))], async () =>
      (await holdfast.enqueue(job, { n: 1 }, { maxAttempts: 5 })).wait({ timeout: '20s' }),
    )
  }

  test('a retry repeats no step that has finished', async () => {
    const ran: string[] = []

    const result = await run(async (ctx) => {
      const id = await ctx.step('charge', () => {
        ran.push(`charge in attempt ${ctx.attempt}`)
        return { id: 7 }
      })
      expectTypeOf(id).toEqualTypeOf<{ id: number }>()
      await ctx.step('mail', () => {
        ran.push(`mail in attempt ${ctx.attempt}`)
        if (ctx.attempt < 3) throw new RetryJob('the mail server is down', AGAIN)
      })
      return id
    })

    expect(result).toEqual({ id: 7 })
    expect(ran).toEqual(['charge in attempt 1', 'mail in attempt 1', 'mail in attempt 2', 'mail in attempt 3'])
  })

  test('a step gives in its own attempt what a later one gets: what JSON makes of it', async () => {
    const seen: unknown[] = []

    await run(async (ctx) => {
      const value = await ctx.step('when', () => ({ at: new Date(0), none: undefined }))
      const nothing = await ctx.step('nothing', () => undefined)
      seen.push([value, nothing])
      if (ctx.attempt === 1) throw new RetryJob('once more', AGAIN)
    })

    expect(seen).toEqual([
      [{ at: '1970-01-01T00:00:00.000Z' }, undefined],
      [{ at: '1970-01-01T00:00:00.000Z' }, undefined],
    ])
  })

  test('steps may run concurrently, and a step that failed may be tried again in the same attempt', async () => {
    const result = await run(async ({ step }) => {
      let tries = 0
      const flaky = () => {
        if (++tries === 1) throw new Error('busy')
        return tries
      }
      const parts = await Promise.all([1, 2, 3].map((n) => step(`part ${n}`, async () => n * 10)))
      await failure(step('flaky', flaky))
      return [...parts, await step('flaky', flaky)]
    })

    expect(result).toEqual([10, 20, 30, 2])
  })

  test('a step whose result cannot be stored fails with an error that says why', async () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    const cases: readonly (readonly [string, () => unknown, RegExp])[] = [
      ['circular', () => circular, /circular/],
      ['bigint', () => 1n, /BigInt/],
      ['function', () => () => {}, /a function is no JSON value/],
      ['large', () => 'x'.repeat(300_000), /300002 bytes of JSON, the limit is 262144/],
      ['deep', () => JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`), /deeper than 500 levels/],
      [
        'throws',
        () => ({
          toJSON() {
            throw new Error('it will not')
          },
        }),
        /it will not/,
      ],
    ]

    const errors = new Map<string, unknown>()
    await run(async (ctx) => {
      for (const [name, value] of cases) errors.set(name, await failure(ctx.step(name, value)))
    })

    for (const [name, , why] of cases) {
      const error = errors.get(name)
      expect(isHoldfastError(error, 'unstorable'), name).toBe(true)
      expect((error as Error).message).toMatch(why)
      expect((error as Error).message).toContain(`step "${name}"`)
    }
  })

  test('bad names and bad functions are refused before anything runs', async () => {
    const ran: unknown[] = []
    const wrong = [undefined, 1, '', 'x'.repeat(201), 'tab\t', '\ud800', {}] as never[]

    await run(async (ctx) => {
      for (const name of wrong) {
        ran.push(await failure(ctx.step(name, () => ran.push('ran'))))
        ran.push(await failure(ctx.once(name, () => ran.push('ran'))))
      }
      ran.push(await failure(ctx.step('a', 'b' as never)))
      ran.push(await failure(ctx.once('a', undefined as never)))
    })

    expect(ran.map((error) => (error as { code?: string }).code)).toEqual(ran.map(() => 'invalid_option'))
    expect(ran).toHaveLength(2 * wrong.length + 2)
  })

  test('one name for two steps of an attempt is refused', async () => {
    const message = await run(async (ctx) => {
      await ctx.step('charge', () => 1)
      return ((await failure(ctx.step('charge', () => 2))) as Error).message
    })

    expect(message).toMatch(/step "charge" of job .* is used twice in one attempt/)
  })

  test('a job keeps at most 5,000 steps', async () => {
    const error = await run(async (ctx) => {
      for (let n = 0; n < 5_000; n += 500) {
        await Promise.all(Array.from({ length: 500 }, (_, i) => ctx.step(`step ${n + i}`, () => null)))
      }
      const one = (await failure(ctx.step('one more', () => null))) as { code: string; message: string }
      return { code: one.code, message: one.message }
    })

    expect(error).toMatchObject({ code: 'kept_full' })
    expect((error as Error).message).toMatch(/has kept 5000 steps/)
  })

  test('a step after the end of the attempt is refused', async () => {
    let late: JobContext['step'] | null = null
    await run((ctx) => {
      late = ctx.step
    })

    expect(await failure(late!('late', () => 1))).toMatchObject({ code: 'wrong_state' })
  })

  test('a job that was told to stop begins no other step, and goes on where it stopped', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const ran: number[] = []
    let reached!: () => void
    const halfway = new Promise<void>((resolve) => {
      reached = resolve
    })
    const handler = job.handle(async (_payload, ctx) => {
      for (let n = 1; n <= 4; n++) {
        await ctx.step(`part ${n}`, async () => {
          ran.push(n)
          if (n !== 2 || ctx.signal.aborted || ran.filter((one) => one === 2).length > 1) return
          reached()
          await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()))
        })
      }
      return 'done'
    })
    const handle = await holdfast.enqueue(job, { n: 1 })
    const worker = holdfast.worker({ handlers: [handler], queues: [job.queue] })
    await worker.start()
    await halfway
    await worker.stop({ drain: 0 })
    expect(ran).toEqual([1, 2])

    const result = await working([handler], () => handle.wait({ timeout: '20s' }))

    expect(result).toBe('done')
    // The second was cut off by the shutdown before its end could be kept, or was not: both are allowed. The first is not run again.
    expect(ran.filter((n) => n === 1)).toHaveLength(1)
    expect(ran.slice(-2)).toEqual([3, 4])
  })

  test('get shows the steps of a job', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    const handler = job.handle(async (_payload, ctx) => {
      await ctx.step('first', () => 'secret')
      await ctx.once('second', () => 'secret')
    })

    const view = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, { n: 1 })
      await handle.wait({ timeout: '20s' })
      return holdfast.get(handle.id)
    })

    expect(view!.steps).toMatchObject([
      { kind: 'step', name: 'first', attempt: 1, begun: 1 },
      { kind: 'effect', name: 'second', attempt: 1, begun: 1 },
    ])
    expect(JSON.stringify(view!.steps)).not.toContain('secret')
  })

  test('an effect is done once, and a retry gets its result', async () => {
    const keys: string[] = []

    const result = await run(async (ctx) => {
      const receipt = await ctx.once('charge', (key, { begun, isDoubtful }) => {
        keys.push(key)
        return { begun, isDoubtful }
      })
      if (ctx.attempt === 1) throw new RetryJob('once more', AGAIN)
      return { ...receipt, key: `${ctx.id}:charge` }
    })

    expect(result).toEqual({ begun: 1, isDoubtful: false, key: keys[0] })
    expect(keys).toHaveLength(1)
  })

  test('an effect that failed is handed out again under the same key, and says that it is in doubt', async () => {
    const calls: unknown[] = []

    const result = await run((ctx) =>
      ctx.once('charge', (key, call) => {
        calls.push([key.slice(ctx.id.length), call.begun, call.isDoubtful])
        if (ctx.attempt < 3) throw new RetryJob('no answer', AGAIN)
        return 'paid'
      }),
    )

    expect(result).toBe('paid')
    expect(calls).toEqual([
      [':charge', 1, false],
      [':charge', 2, true],
      [':charge', 3, true],
    ])
  })

  test('a dropped job keeps its steps for the day it is requeued', async () => {
    const { holdfast, working } = queue()
    const job = newJob()
    let broken = true
    const ran: string[] = []
    const handler = job.handle(async (_payload, ctx) => {
      await ctx.step('charge', () => void ran.push('charge'))
      if (broken) throw new DropJob('the address is wrong')
      return 'sent'
    })

    const result = await working([handler], async () => {
      const handle = await holdfast.enqueue(job, { n: 1 })
      await failure(handle.wait({ timeout: '20s' }))
      broken = false
      await holdfast.requeue(handle.id)
      return handle.wait({ timeout: '20s' })
    })

    expect(result).toBe('sent')
    expect(ran).toEqual(['charge'])
  })
})
