import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { resolveWorkerOptions, type WorkerOptions } from '../../src/worker/options.js'
import { gate, openStage, work } from './stage.js'

const handlers = [work(() => {})]

describe('worker options', () => {
  test('what is left out has its default', () => {
    const settings = resolveWorkerOptions({ handlers })

    expect({ ...settings, handlers: [...settings.handlers.keys()] }).toEqual({
      handlers: ['work'],
      queues: ['default'],
      weights: null,
      concurrency: 10,
      prefetch: 1_000,
      claimBatch: 500,
      leaseMs: 30_000,
      heartbeatMs: 10_000,
      drainMs: 15_000,
      pollMinMs: 50,
      pollMaxMs: 5_000,
      name: null,
      onRetry: null,
      onDead: null,
    })
  })

  test('prefetch may be nothing', () => {
    expect(resolveWorkerOptions({ handlers, prefetch: 0 }).prefetch).toBe(0)
  })

  test('queues named twice count once', () => {
    expect(resolveWorkerOptions({ handlers, queues: ['a', 'b', 'a'] }).queues).toEqual(['a', 'b'])
  })

  test.each<[string, object, string, string]>([
    ['an unknown option', { speed: 9 }, 'invalid_option', 'speed'],
    ['no handlers', { handlers: [] }, 'invalid_option', 'handlers'],
    ['a handler that is none', { handlers: [() => {}] }, 'invalid_option', 'defineJob'],
    ['two handlers of one type', { handlers: [...handlers, ...handlers] }, 'duplicate_handler', 'work'],
    ['no queues', { queues: [] }, 'invalid_option', 'queues'],
    ['a hostile queue name', { queues: ["a'; DROP TABLE"] }, 'invalid_name', 'queue'],
    ['no slots', { concurrency: 0 }, 'invalid_option', 'concurrency'],
    ['too many slots', { concurrency: 4_097 }, 'invalid_option', 'concurrency'],
    ['half a slot', { concurrency: 1.5 }, 'invalid_option', 'concurrency'],
    ['a negative prefetch', { prefetch: -1 }, 'invalid_option', 'prefetch'],
    ['a claim of nothing', { claimBatch: 0 }, 'invalid_option', 'claimBatch'],
    ['an oversized claim', { claimBatch: 5_001 }, 'invalid_option', 'claimBatch'],
    ['a lease too short', { lease: '100ms' }, 'invalid_option', 'lease'],
    ['a lease that is none', { lease: 'long' }, 'invalid_option', 'lease'],
    ['a heartbeat as long as the lease', { lease: '10s', heartbeat: '10s' }, 'invalid_option', 'heartbeat'],
    ['a negative drain', { drain: -1 }, 'invalid_option', 'drain'],
    ['a longest pause below the shortest', { pollMin: '1s', pollMax: '10ms' }, 'invalid_option', 'pollMax'],
    ['a hostile name', { name: 'a b' }, 'invalid_name', 'name'],
  ])('%s is refused at construction', (_what, options, code, mention) => {
    const { worker } = openStage()

    const make = () => worker({ handlers, ...options } as WorkerOptions)

    expect(make).toThrow(expect.objectContaining({ code, message: expect.stringContaining(mention) }))
  })

  test('an unknown option of stop is refused and the worker runs on', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers })
    await worker.start()

    expect(() => worker.stop({ force: true } as object)).toThrow(expect.objectContaining({ code: 'invalid_option' }))
    expect(() => worker.stop({ drain: 'soon' as '1s' })).toThrow(expect.objectContaining({ code: 'invalid_option' }))

    const id = await stage.enqueue()
    await stage.clock.advance(100)
    expect(await stage.get(id)).toMatchObject({ state: 'succeeded' })
    await worker.stop()
  })

  test('two workers of one process have different ids that begin with their name', () => {
    const { worker } = openStage()

    const [one, other] = [worker({ handlers, name: 'mail' }), worker({ handlers, name: 'mail' })]

    expect(one.id).toMatch(/^mail:1:[0-9a-f]{8}$/)
    expect(one.id).not.toBe(other.id)
  })

  test('a worker tells what it runs, the longest first', async () => {
    const stage = openStage()
    const ids = [await stage.enqueue(), await stage.enqueue()]
    const startedAtMs = stage.clock.now()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)] })

    await worker.start()
    await stage.clock.advance(10_000)
    const [view] = await stage.store.workers()
    end.open()
    await worker.stop()

    const running = { type: 'work', queue: 'default', attempt: 1, startedAtMs }
    expect(view!.jobs).toEqual(ids.map((id) => ({ id, ...running })))
  })

  test('a worker shows itself in the store while it runs', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [defineJob('mail', { queue: 'email' }).handle(() => {})], concurrency: 3 })

    await worker.start()
    await stage.clock.advance(10_000)
    const [view] = await stage.store.workers()
    await worker[Symbol.asyncDispose]()

    expect(view).toMatchObject({ id: worker.id, queues: ['email'], concurrency: 3, running: 0, draining: false })
    expect(view).toMatchObject({ types: ['mail'], jobs: [] })
    expect(view!.seenAt.getTime()).toBe(stage.clock.now())
    expect(await stage.store.workers()).toEqual([])
  })
})
