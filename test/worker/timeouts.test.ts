import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import type { HandlerFunction } from '../../src/core/definition.js'
import { gate, openStage, whenAborted } from './stage.js'

function timed(run: HandlerFunction<unknown>) {
  return defineJob('work', { timeout: '30s', retry: { backoff: 'fixed', base: '1m', jitter: false } }).handle(run)
}

describe('a handler that runs too long', () => {
  test('its signal fires exactly at the timeout, with the reason timed_out', async () => {
    const stage = openStage()
    await stage.enqueue()
    let reason: unknown = null
    const end = gate()
    const worker = stage.worker({
      handlers: [
        timed(async (_payload, ctx) => {
          void whenAborted(ctx.signal).then((why) => {
            reason = why
          })
          await end.promise
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(29_999)
    const early = reason
    await stage.clock.advance(1)
    end.open()
    await ticking

    expect(early).toBeNull()
    expect(reason).toMatchObject({ code: 'timed_out' })
  })

  test('throwing within the grace counts as timed out, and the job is retried', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        timed(async (_payload, ctx) => {
          await whenAborted(ctx.signal)
          throw new Error('interrupted')
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(30_000)
    await ticking

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { code: 'timed_out' } })
  })

  test('returning within the grace counts as success', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        timed(async (_payload, ctx) => {
          await whenAborted(ctx.signal)
          return 'just in time'
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(30_000)
    await ticking

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: 'just in time' })
  })

  test('one that never ends is given up after the grace: settled, its slot free, job.stuck emitted', async () => {
    const stage = openStage()
    const stuck = await stage.enqueue()
    const next = await stage.enqueue()
    const handler = timed((_payload, ctx) => (ctx.id === stuck ? new Promise(() => {}) : 'ran'))
    const worker = stage.worker({ handlers: [handler], concurrency: 1, prefetch: 0 })

    await worker.start()
    await stage.clock.advance(34_999)
    const before = await stage.get(stuck)
    await stage.clock.advance(2_001)
    await worker.stop()

    expect(before.state).toBe('running')
    expect(await stage.get(stuck)).toMatchObject({ state: 'retrying', error: { code: 'handler_stuck' } })
    expect(await stage.get(next)).toMatchObject({ state: 'succeeded', result: 'ran' })
    expect(stage.heard('job.stuck')).toMatchObject([{ id: stuck, type: 'work' }])
  })

  test('what a stuck handler does after it was given up changes nothing', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const late = gate<string>()
    const worker = stage.worker({ handlers: [timed(() => late.promise)] })

    const ticking = worker.tick()
    await stage.clock.advance(35_000)
    await ticking
    late.open('too late')
    await stage.clock.advance(0)

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', result: null })
    expect(stage.heard('job.ended')).toHaveLength(1)
  })

  test('a schema that never answers is bounded by the timeout as well', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const input = {
      '~standard': { version: 1, vendor: 'test', validate: () => new Promise<never>(() => {}) },
    } as const
    const handler = defineJob('work', { input, timeout: '30s' }).handle(() => 'never')

    const ticking = stage.worker({ handlers: [handler] }).tick()
    await stage.clock.advance(35_000)
    await ticking

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { code: 'handler_stuck' } })
  })

  test('a job without a timeout runs as long as it likes', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ limits: { timeoutMs: null } })
    const end = gate()
    const worker = stage.worker({ handlers: [timed(() => end.promise)] })

    const ticking = worker.tick()
    await stage.clock.advance(3 * 3_600_000)
    end.open()
    await ticking

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded' })
  })
})
