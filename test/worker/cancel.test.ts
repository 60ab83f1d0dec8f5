import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { gate, openStage, type Stage, unavailable, whenAborted, work } from './stage.js'

describe('cancel while a job runs', () => {
  test('the signal fires immediately with job_cancelled, and throwing ends the job as cancelled', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    let reason: unknown
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          reason = await whenAborted(ctx.signal)
          throw reason
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await stage.store.cancel([id], 'test')
    await ticking

    expect(reason).toMatchObject({ code: 'job_cancelled' })
    expect(await stage.get(id)).toMatchObject({ state: 'cancelled', attempts: [] })
  })

  test('a handler that returns all the same has succeeded', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          await whenAborted(ctx.signal)
          return 'done already'
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await stage.store.cancel([id], 'test')
    await ticking

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: 'done already' })
  })

  test('a signal looked at only after the cancel has fired already', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const look = gate()
    let wasAborted = false
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          await look.promise
          wasAborted = ctx.signal.aborted
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await stage.store.cancel([id], 'test')
    look.open()
    await ticking

    expect(wasAborted).toBe(true)
  })

  test('a handler that ignores the signal is given up after five seconds, as cancelled', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => new Promise(() => {}))] })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await stage.store.cancel([id], 'test')
    await stage.clock.advance(4_999)
    const before = await stage.get(id)
    await stage.clock.advance(1)
    await ticking

    expect(before.state).toBe('running')
    expect(await stage.get(id)).toMatchObject({ state: 'cancelled' })
    expect(stage.heard('job.stuck')).toHaveLength(1)
  })

  test.each([0, 150, 350, 690])(
    'with wake-ups lost it arrives within a second, asked for after %i ms',
    async (afterMs) => {
      const stage = deaf(openStage())
      const id = await stage.enqueue()
      let abortedAtMs = 0
      const worker = stage.worker({
        handlers: [
          work(async (_payload, ctx) => {
            await whenAborted(ctx.signal)
            abortedAtMs = stage.clock.monotonic()
            throw ctx.signal.reason
          }),
        ],
      })

      await worker.start()
      await stage.clock.advance(afterMs)
      const askedAtMs = stage.clock.monotonic()
      await stage.store.cancel([id], 'test')
      await stage.clock.advance(1_000)
      await worker.stop()

      expect(abortedAtMs - askedAtMs).toBeLessThanOrEqual(1_000)
      expect(await stage.get(id)).toMatchObject({ state: 'cancelled' })
    },
  )

  test('a failed look for cancels is tried again', async () => {
    const stage = deaf(openStage())
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          throw await whenAborted(ctx.signal)
        }),
      ],
    })

    await worker.start()
    await stage.clock.advance(0)
    await stage.store.cancel([id], 'test')
    stage.fail(['watch'], { error: unavailable() })
    await stage.clock.advance(1_400)
    stage.heal()
    await stage.clock.advance(700)
    await worker.stop()

    expect(await stage.get(id)).toMatchObject({ state: 'cancelled' })
    expect(stage.heard('store.recovered')).toMatchObject([{ during: 'watch' }])
  })
})

describe('cancel while a job waits in the worker', () => {
  test('it never starts', async () => {
    const stage = openStage()
    const first = await stage.enqueue()
    const second = await stage.enqueue()
    const end = gate()
    const started: string[] = []
    const worker = stage.worker({
      handlers: [
        work((_payload, ctx) => {
          started.push(ctx.id)
          return end.promise
        }),
      ],
      concurrency: 1,
      prefetch: 1,
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await stage.store.cancel([second], 'test')
    end.open()
    await ticking

    expect(started).toEqual([first])
    expect(await stage.get(second)).toMatchObject({ state: 'cancelled', attempts: [] })
  })
})

// The same stage with a store whose wake-ups are all lost.
function deaf(stage: Stage): Stage {
  ;(stage.store as { listen: Store['listen'] }).listen = () => () => {}
  return stage
}
