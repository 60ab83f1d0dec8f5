import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import type { ClaimedJob } from '../../src/core/job.js'
import type { ClaimRequest } from '../../src/core/job-store.js'
import type { Store } from '../../src/core/store.js'
import { rotate, splitRoom, stillFull, takeTurns } from '../../src/worker/shares.js'
import { gate, openStage, work } from './stage.js'

describe('fair turns over queues', () => {
  test('a flooded queue does not keep a small one waiting', async () => {
    const stage = openStage()
    for (let index = 0; index < 500; index++) await stage.enqueue({ queue: 'flood' })
    const small = [await stage.enqueue({ queue: 'small' }), await stage.enqueue({ queue: 'small' })]
    const order: string[] = []
    const worker = stage.worker({
      handlers: [work((_payload, ctx) => void order.push(ctx.id))],
      queues: ['flood', 'small'],
      concurrency: 4,
      prefetch: 0,
    })

    await worker.tick()

    expect(order.slice(0, 4)).toEqual(expect.arrayContaining(small))
  })

  test('a queue that never runs dry does not keep one waiting that fills later', async () => {
    const stage = openStage()
    for (let index = 0; index < 400; index++) await stage.enqueue({ queue: 'flood' })
    const order: string[] = []
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          order.push(ctx.queue)
          if (order.length === 20) await stage.enqueue({ queue: 'small' })
        }),
      ],
      queues: ['flood', 'small'],
      concurrency: 4,
      prefetch: 0,
    })

    await worker.start()
    await stage.clock.advance(1_000)
    await worker.stop()

    expect(order).toHaveLength(401)
    expect(order.indexOf('small')).toBeLessThan(40)
  })

  test('with one slot the queues take turns', async () => {
    const stage = openStage()
    for (const queue of ['a', 'a', 'a', 'b', 'b', 'b']) await stage.enqueue({ queue })
    const order: string[] = []
    const worker = stage.worker({
      handlers: [work((_payload, ctx) => void order.push(ctx.queue))],
      queues: ['a', 'b'],
      concurrency: 1,
      prefetch: 0,
    })

    await worker.start()
    await stage.clock.advance(1_000)
    await worker.stop()

    expect(order).toHaveLength(6)
    expect(order.slice(0, 4).filter((queue) => queue === 'a')).toHaveLength(2)
  })

  test('room a poor queue leaves goes to the rich one in the same round', async () => {
    const stage = openStage()
    for (let index = 0; index < 20; index++) await stage.enqueue({ queue: 'rich' })
    const end = gate()
    const worker = stage.worker({
      handlers: [work(() => end.promise)],
      queues: ['poor', 'rich'],
      concurrency: 10,
      prefetch: 0,
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    const { running } = await stage.store.stats('rich')
    end.open()
    await ticking

    expect(running).toBe(10)
  })

  test('jobs of other types are left for workers that know them', async () => {
    const stage = openStage()
    const unknown = await stage.enqueue({ type: 'strange' })
    const known = await stage.enqueue()

    await stage.worker({ handlers: [work(() => 'ok')] }).tick()

    expect(await stage.get(unknown)).toMatchObject({ state: 'ready', attempt: 0 })
    expect(await stage.get(known)).toMatchObject({ state: 'succeeded' })
  })

  test('the queues are those of the definitions unless the options name others', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ queue: 'email', type: 'send' })

    await stage.worker({ handlers: [defineJob('send', { queue: 'email' }).handle(() => 'sent')] }).tick()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: 'sent' })
  })
})

describe('shares of a claim', () => {
  test('what is left over goes to the first, and no more than the room is asked for', () => {
    const shares = splitRoom(['a', 'b', 'c'], 8)

    expect(shares).toEqual([
      { queue: 'a', limit: 3 },
      { queue: 'b', limit: 3 },
      { queue: 'c', limit: 2 },
    ])
    expect(splitRoom(['a', 'b', 'c'], 1).map(({ limit }) => limit)).toEqual([1, 0, 0])
  })

  test('a queue that was empty leaves most of the room to the others', () => {
    const limits = (dry: readonly string[], room: number) =>
      splitRoom(['a', 'b', 'c'], room, new Set(dry)).map(({ limit }) => limit)

    expect(limits(['b'], 320)).toEqual([150, 20, 150])
    expect(limits(['b'], 321)).toEqual([150, 21, 150])
    expect(limits(['a', 'b'], 320)).toEqual([20, 20, 280])
    expect(limits(['a', 'b', 'c'], 320)).toEqual([107, 107, 106])
    expect(limits(['b'], 4)).toEqual([2, 1, 1])
  })

  test('a worker asks a queue that was empty for little, until it is no longer empty', async () => {
    const stage = openStage()
    const asked: number[] = []
    const store = new Proxy(stage.store, {
      get(target, method: keyof Store) {
        if (method !== 'claim') return target[method]
        return (request: ClaimRequest) => {
          const share = request.queues.find(({ queue }) => queue === 'small')
          if (share !== undefined) asked.push(share.limit)
          return target.claim(request)
        }
      },
    })
    for (let index = 0; index < 200; index++) await stage.enqueue({ queue: 'busy' })
    const worker = stage.worker(
      { handlers: [work(() => {})], queues: ['busy', 'small'], concurrency: 64, prefetch: 0 },
      store,
    )

    await worker.start()
    await stage.clock.advance(1_000)
    const whileEmpty = asked.splice(0)
    await Promise.all(Array.from({ length: 200 }, () => stage.enqueue({ queue: 'small' })))
    await stage.clock.advance(1_000)
    await worker.stop()

    expect(whileEmpty[0]).toBe(32)
    // The last looks find both empty, and split evenly again.
    expect(Math.max(...whileEmpty.slice(1, 4))).toBeLessThanOrEqual(4)
    expect(Math.max(...asked)).toBeGreaterThan(30)
    expect(stage.heard('job.settled')).toHaveLength(400)
  })

  test('a queue that was empty and fills gets its part immediately', async () => {
    const stage = openStage()
    for (let index = 0; index < 400; index++) await stage.enqueue({ queue: 'busy' })
    const order: string[] = []
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          order.push(ctx.queue)
          if (order.length !== 100) return
          await Promise.all(Array.from({ length: 40 }, () => stage.enqueue({ queue: 'late' })))
        }),
      ],
      queues: ['busy', 'late'],
      concurrency: 32,
      prefetch: 0,
    })

    await worker.start()
    await stage.clock.advance(1_000)
    await worker.stop()

    expect(order).toHaveLength(440)
    expect(order.lastIndexOf('late')).toBeLessThan(300)
  })

  test('each turn begins with another queue', () => {
    expect([0, 1, 2, 3].map((turn) => rotate(['a', 'b', 'c'], turn)[0])).toEqual(['a', 'b', 'c', 'a'])
  })

  test('queues that gave their whole share may have more', () => {
    const shares = [
      { queue: 'full', limit: 1 },
      { queue: 'short', limit: 2 },
    ]

    const full = stillFull(shares, [{ queue: 'full' }, { queue: 'short' }] as ClaimedJob[])

    expect(full).toEqual(['full'])
  })

  test('jobs of one claim start one of each queue at a time, each queue in its own order', () => {
    const jobs = ['a1', 'a2', 'a3', 'b1', 'c1', 'c2'].map((id) => ({ id, queue: id[0]! })) as ClaimedJob[]

    expect(takeTurns(jobs).map(({ id }) => id)).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  })
})

describe('when the fetcher asks', () => {
  test('an idle worker looks less and less often, and a wake-up is answered immediately', async () => {
    const stage = openStage()
    let calls = 0
    const worker = stage.worker({ handlers: [work(() => void calls++)] })

    await worker.start()
    await stage.clock.advance(60_000)
    const idleClaims = stage.calls('claim')
    await stage.enqueue()
    await stage.clock.advance(0)

    expect(idleClaims).toBeLessThan(60)
    expect(calls).toBe(1)
    await worker.stop()
  })

  test('with wake-ups lost a job is found within the longest pause', async () => {
    const stage = openStage()
    let calls = 0
    ;(stage.store as { listen: unknown }).listen = () => () => {}
    const worker = stage.worker({ handlers: [work(() => void calls++)], pollMax: '2s' })

    await worker.start()
    await stage.clock.advance(60_000)
    await stage.enqueue()
    await stage.clock.advance(2_000)

    expect(calls).toBe(1)
    await worker.stop()
  })

  test('no claim asks for more than claimBatch', async () => {
    const stage = openStage()
    for (let index = 0; index < 30; index++) await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => {})], concurrency: 20, claimBatch: 7 })

    await worker.start()
    await stage.clock.advance(100)
    await worker.stop()

    expect(Math.max(...stage.heard('job.claimed').map(({ asked }) => asked))).toBe(7)
    expect(stage.heard('job.settled')).toHaveLength(30)
  })

  test('a worker never holds more than its slots and its prefetch', async () => {
    const stage = openStage()
    for (let index = 0; index < 30; index++) await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], concurrency: 3, prefetch: 4 })

    await worker.start()
    await stage.clock.advance(500)
    const { running } = await stage.store.stats('default')
    end.open()
    await worker.stop()

    expect(running).toBe(7)
  })

  test('jobs that wait too long for a slot are given back, and fewer are claimed ahead', async () => {
    const stage = openStage()
    for (let index = 0; index < 10; index++) await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], concurrency: 1, prefetch: 5 })

    await worker.start()
    await stage.clock.advance(500)
    const early = (await stage.store.stats('default')).running
    await stage.clock.advance(3_000)
    const late = await stage.store.stats('default')
    end.open()
    await worker.stop()

    expect(early).toBe(6)
    expect(late).toMatchObject({ running: 1, ready: 9 })
  })
})
