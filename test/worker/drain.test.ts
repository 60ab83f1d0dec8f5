import { describe, expect, test } from 'vitest'
import { gate, openStage, whenAborted, work } from './stage.js'

describe('stop', () => {
  test('running jobs finish within the drain time and nothing new is claimed', async () => {
    const stage = openStage()
    const running = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], concurrency: 1, prefetch: 0 })
    await worker.start()
    await stage.clock.advance(10)

    const stopping = worker.stop()
    const late = await stage.enqueue()
    await stage.clock.advance(5_000)
    end.open()
    await stopping

    expect(await stage.get(running)).toMatchObject({ state: 'succeeded' })
    expect(await stage.get(late)).toMatchObject({ state: 'ready', attempt: 0 })
    expect(stage.heard('worker.stopped')).toMatchObject([{ worker: worker.id, released: 0 }])
    expect(await stage.store.workers()).toEqual([])
  })

  test('jobs that waited for a slot are given back immediately, their attempt too', async () => {
    const stage = openStage()
    const ids = [await stage.enqueue(), await stage.enqueue(), await stage.enqueue()]
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], concurrency: 1, prefetch: 2 })
    await worker.start()
    await stage.clock.advance(10)
    const claimed = await Promise.all(ids.map((id) => stage.get(id)))

    const stopping = worker.stop()
    await stage.clock.advance(0)
    const afterStop = await Promise.all(ids.map((id) => stage.get(id)))
    end.open()
    await stopping

    expect(claimed.map(({ state }) => state)).toEqual(['running', 'running', 'running'])
    expect(afterStop.map(({ state, attempt }) => [state, attempt])).toEqual([
      ['running', 1],
      ['ready', 0],
      ['ready', 0],
    ])
    expect(stage.heard('worker.stopped')).toMatchObject([{ released: 2 }])
  })

  test('after the drain time the signal says aborted, and a job that throws is released', async () => {
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
      drain: '2s',
    })
    await worker.start()
    await stage.clock.advance(10)

    const stopping = worker.stop()
    await stage.clock.advance(1_999)
    const early = reason
    await stage.clock.advance(1)
    await stopping

    expect(early).toBeUndefined()
    expect(reason).toMatchObject({ code: 'aborted' })
    expect(await stage.get(id)).toMatchObject({ state: 'ready', attempt: 0, attempts: [] })
  })

  test('a handler that ignores the signal is released a second later', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => new Promise(() => {}))] })
    await worker.start()
    await stage.clock.advance(10)

    const stopping = worker.stop({ drain: 0 })
    await stage.clock.advance(1_000)
    await stopping

    expect(await stage.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
    expect(stage.heard('job.stuck')).toHaveLength(1)
  })

  test('two hundred jobs in flight are all finished or released, none settled twice', async () => {
    const stage = openStage()
    const ids: string[] = []
    for (let index = 0; index < 200; index++) ids.push(await stage.enqueue({ payload: `{"n":${index}}` }))
    const end = gate()
    const worker = stage.worker({
      handlers: [
        work(async (payload, ctx) => {
          if ((payload as { n: number }).n % 2 === 0) return end.promise
          throw await whenAborted(ctx.signal)
        }),
      ],
      concurrency: 200,
    })
    await worker.start()
    await stage.clock.advance(10)

    const stopping = worker.stop({ drain: '1s' })
    end.open()
    await stage.clock.advance(1_000)
    await stopping

    const states = await Promise.all(ids.map(async (id) => (await stage.get(id)).state))
    expect(states.filter((state) => state === 'succeeded')).toHaveLength(100)
    expect(states.filter((state) => state === 'ready')).toHaveLength(100)
    const settled = stage.heard('job.settled').map(({ id }) => id)
    expect(new Set(settled).size).toBe(200)
    expect(settled).toHaveLength(200)
  })

  test('a second stop with less patience shortens the first, and both end together', async () => {
    const stage = openStage()
    await stage.enqueue()
    const worker = stage.worker({ handlers: [work((_payload, ctx) => whenAborted(ctx.signal))], drain: null })
    await worker.start()
    await stage.clock.advance(10)

    const first = worker.stop()
    await stage.clock.advance(3_600_000)
    const second = worker.stop({ drain: 0 })

    await expect(Promise.all([first, second])).resolves.toBeDefined()
  })

  test('a worker that never started stops immediately and cannot start any more', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] })

    await worker.stop()

    await expect(worker.start()).rejects.toMatchObject({ code: 'closed' })
    await expect(worker.tick()).rejects.toMatchObject({ code: 'wrong_state' })
  })

  test('a worker in the middle of a tick cannot start, and a stop there lets the tick finish', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)] })

    const ticking = worker.tick()
    await expect(worker.start()).rejects.toMatchObject({ code: 'wrong_state' })
    await worker.stop()
    end.open()
    await ticking

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded' })
    await expect(worker.start()).rejects.toMatchObject({ code: 'closed' })
  })

  test('a store that is away does not keep a worker from stopping for ever', async () => {
    const stage = openStage()
    await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)] })
    await worker.start()
    await stage.clock.advance(10)

    stage.fail()
    const stopping = worker.stop()
    end.open()
    await stage.clock.advance(12_000)
    await stopping

    expect(stage.heard('worker.stopped')).toHaveLength(1)
    expect(stage.heard('store.failed').some(({ error }) => error.message.includes('never reached the store'))).toBe(
      true,
    )
  })

  test('jobs a claim brings after stop was called are given back', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    let calls = 0
    const worker = stage.worker({ handlers: [work(() => void calls++)] })
    const claim = stage.store.claim
    const hold = gate()
    ;(stage.store as { claim: typeof claim }).claim = async (request) => {
      const answer = await claim(request)
      await hold.promise
      return answer
    }

    await worker.start()
    await stage.clock.advance(0)
    const stopping = worker.stop()
    hold.open()
    await stopping

    expect(calls).toBe(0)
    expect(await stage.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
  })
})
