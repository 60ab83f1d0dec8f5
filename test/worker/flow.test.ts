// A worker and queues that have flow control: when it claims, what it reports, what its handlers can say.

import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { DropJob, type HandlerFunction, type JobContext } from '../../src/core/definition.js'
import type { JobFlow } from '../../src/core/flow/job-flow.js'
import { NO_LIMIT, NO_QUEUE_FLOW, type QueueFlow, type Rate } from '../../src/core/flow/settings.js'
import type { NewJob } from '../../src/core/job.js'
import { WeightedShares } from '../../src/worker/shares.js'
import { type Gate, gate, openStage, type Stage, work } from './stage.js'

const QUEUE = 'default'

function inGroup(group: string): Partial<NewJob> {
  return { flow: { group, limits: [], cost: 1 } }
}

function limitedBy(...limits: string[]): Partial<NewJob> {
  return { flow: { group: null, limits, cost: 1 } }
}

const perSecond = (limit: number, burst = limit, counts: Rate['counts'] = 'starts'): Rate => ({
  limit,
  perMs: 1_000,
  burst,
  counts,
})

function setFlow(stage: Stage, flow: Partial<QueueFlow>): Promise<void> {
  return stage.store.setQueue(QUEUE, { limits: {}, flow: { ...NO_QUEUE_FLOW, ...flow } }, 'ada')
}

async function enqueueMany(stage: Stage, count: number, job: Partial<NewJob> = {}): Promise<string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index++) ids.push(await stage.enqueue(job))
  return ids
}

/** Starts a worker, lets time pass, and stops it. */
async function runFor(stage: Stage, run: HandlerFunction<unknown>, ms: number, options = {}): Promise<void> {
  const worker = stage.worker({ handlers: [work(run)], ...options })
  await worker.start()
  await stage.clock.advance(ms)
  await worker.stop()
}

describe('claims', () => {
  test('a worker with one idle slot asks its other queues when the first has nothing', async () => {
    const stage = openStage()
    const queues = ['one', 'two', 'three', 'four']
    for (const queue of queues) await stage.store.setQueue(queue, { limits: {}, flow: NO_QUEUE_FLOW }, 'ada')
    const started: number[] = []
    const beganMs = stage.clock.now()
    const run = () => void started.push(stage.clock.now() - beganMs)
    const worker = stage.worker({ handlers: [work(run)], queues, concurrency: 1, prefetch: 20 })
    await worker.start()
    await stage.clock.advance(100)

    // Whichever queue is next in turn, the only job is in another.
    for (const queue of ['three', 'three', 'three']) {
      await stage.enqueue({ queue })
      await stage.clock.advance(100)
    }
    await worker.stop()

    expect(started).toEqual([100, 200, 300])
  })

  test('jobs behind a rate start when their tokens come, without polling in between', async () => {
    const stage = openStage()
    await setFlow(stage, { rate: perSecond(10, 1) })
    await enqueueMany(stage, 6)
    const started: number[] = []
    const beganMs = stage.clock.now()

    await runFor(stage, () => void started.push(stage.clock.now() - beganMs), 600)

    expect(started).toEqual([0, 100, 200, 300, 400, 500])
    expect(stage.calls('claim')).toBeLessThan(20)
  })

  test('a job in a group that waits starts as soon as the one before it has ended', async () => {
    const stage = openStage()
    await setFlow(stage, { groups: { ...NO_QUEUE_FLOW.groups, concurrency: 1 } })
    await enqueueMany(stage, 4, inGroup('a'))
    let running = 0
    let most = 0
    let done = 0

    await runFor(
      stage,
      async () => {
        most = Math.max(most, ++running)
        await Promise.resolve()
        running--
        done++
      },
      1_000,
    )

    expect(most).toBe(1)
    expect(done).toBe(4)
  })

  test('a worker takes no job of a limited queue that it has no slot for', async () => {
    const stage = openStage()
    await setFlow(stage, { concurrency: 50 })
    await enqueueMany(stage, 40)
    const doors: Gate[] = []
    const worker = stage.worker({
      handlers: [
        work(() => {
          const door = gate()
          doors.push(door)
          return door.promise
        }),
      ],
      concurrency: 4,
    })
    await worker.start()
    await stage.clock.advance(10)
    // The first claim could not know; what it brought beyond the slots is given back in time.
    for (let round = 0; round < 8; round++) {
      for (const door of doors.splice(0)) door.open()
      await stage.clock.advance(50)
    }

    const { running } = await stage.store.stats(QUEUE)
    expect(running <= 4).toBe(true)
    for (const door of doors) door.open()
    await worker.stop()
  })

  test('short jobs are claimed ahead from a queue whose limit lets more start', async () => {
    const stage = openStage()
    await setFlow(stage, { concurrency: 500 })
    await enqueueMany(stage, 400)
    let done = 0

    await runFor(stage, () => void done++, 1_000, { concurrency: 4, claimBatch: 100 })

    expect(done).toBe(400)
    // 100 claims of four jobs, if they were claimed for idle slots only.
    expect(stage.calls('claim')).toBeLessThan(40)
  })

  test('jobs that take long are not claimed ahead, however many may start', async () => {
    const stage = openStage()
    await setFlow(stage, { concurrency: 500 })
    await enqueueMany(stage, 100)

    const waiting = await waitingInHand(stage, { ranMs: 100, concurrency: 4, warmUpMs: 1_500 })

    expect(waiting).toBe(0)
  })

  test.each([
    ['that names a limit, which others share', null, limitedBy('api')],
    ['of a group beyond its turn', null, inGroup('a')],
    ['of a queue whose own limit is full', 4, {}],
  ])('no job is claimed ahead %s', async (_, concurrency, job) => {
    const stage = openStage()
    await stage.store.setLimit('api', { ...NO_LIMIT, concurrency: 100 }, 'ada')
    await setFlow(stage, { concurrency })
    await enqueueMany(stage, 200, job)

    const waiting = await waitingInHand(stage, { ranMs: 4, concurrency: 4, warmUpMs: 200 })

    expect(waiting).toBe(0)
  })

  /** The most jobs that a worker had claimed and not started, once it knew the queue. */
  async function waitingInHand(
    stage: Stage,
    { ranMs, concurrency, warmUpMs }: { ranMs: number; concurrency: number; warmUpMs: number },
  ): Promise<number> {
    let started = 0
    let most = 0
    const run = async () => {
      started++
      await new Promise<void>((resolve) => stage.ports.timers.after(ranMs, resolve))
    }
    const worker = stage.worker({ handlers: [work(run)], concurrency, prefetch: 50 })
    await worker.start()
    await stage.clock.advance(warmUpMs)
    for (let step = 0; step < 50; step++) {
      await stage.clock.advance(ranMs / 4)
      const claimed = stage.heard('job.claimed').reduce((sum, { count }) => sum + count, 0)
      most = Math.max(most, claimed - started)
    }
    const stopped = worker.stop()
    await stage.clock.advance(1_000)
    await stopped
    return most
  }

  test('a free slot is used when a limited queue has more jobs', async () => {
    const stage = openStage()
    await setFlow(stage, { concurrency: 50 })
    await enqueueMany(stage, 30)
    let done = 0

    await runFor(stage, () => void done++, 2_000, { concurrency: 2, prefetch: 0 })

    expect(done).toBe(30)
  })

  test('plain queues beside a limited one go on', async () => {
    const stage = openStage()
    await setFlow(stage, { rate: perSecond(1, 1) })
    await enqueueMany(stage, 5)
    await enqueueMany(stage, 20, { queue: 'plain' })
    const order: string[] = []

    await runFor(stage, (_, ctx) => void order.push(ctx.queue), 500, { queues: [QUEUE, 'plain'], concurrency: 2 })

    expect(order.filter((queue) => queue === 'plain')).toHaveLength(20)
    expect(order.filter((queue) => queue === QUEUE)).toHaveLength(1)
  })

  test('a limit shared by two queues is kept by two workers', async () => {
    const stage = openStage()
    await stage.store.setLimit('api', { ...NO_LIMIT, concurrency: 3 }, 'ada')
    for (const queue of ['a', 'b']) await enqueueMany(stage, 20, { ...limitedBy('api'), queue })
    let running = 0
    let most = 0
    let done = 0
    const handler = work(async () => {
      most = Math.max(most, ++running)
      await new Promise<void>((resolve) => stage.ports.timers.after(5, resolve))
      running--
      done++
    })
    const workers = ['a', 'b'].map((queue) => stage.worker({ handlers: [handler], queues: [queue] }))
    for (const worker of workers) await worker.start()

    await stage.clock.advance(2_000)
    for (const worker of workers) await worker.stop()

    expect(done).toBe(40)
    expect(most).toBe(3)
  })
})

describe('a handler that is told to wait', () => {
  const flow: JobFlow = { group: 'acme', limits: ['api'], cost: 1 }

  async function runOnce(
    run: (ctx: JobContext) => unknown,
    job: Partial<NewJob>,
  ): Promise<{ stage: Stage; id: string }> {
    const stage = openStage()
    await stage.store.setLimit('api', NO_LIMIT, 'ada')
    const id = await stage.enqueue(job)
    await stage.worker({ handlers: [work((_, ctx) => run(ctx))] }).tick()
    return { stage, id }
  }

  test('gives its attempt back and lets everything of its limit wait', async () => {
    const { stage, id } = await runOnce((ctx) => ctx.rateLimited('30s', { limit: 'api' }), { flow })

    expect(await stage.get(id)).toMatchObject({ state: 'ready', attempt: 0, attempts: [] })
    expect(await stage.store.limits()).toMatchObject([{ until: new Date(stage.clock.now() + 30_000) }])
  })

  test('means the one limit its job names, then its group, then the job alone', async () => {
    const byLimit = await runOnce((ctx) => ctx.rateLimited('30s'), { flow })
    expect((await byLimit.stage.store.limits())[0]!.until).not.toBe(null)

    const byGroup = await runOnce((ctx) => ctx.rateLimited('30s'), inGroup('acme'))
    const { groups } = await byGroup.stage.store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10 })
    expect(groups[0]!.until).toEqual(new Date(byGroup.stage.clock.now() + 30_000))

    const alone = await runOnce((ctx) => ctx.rateLimited('30s'), {})
    expect(await alone.stage.get(alone.id)).toMatchObject({
      state: 'scheduled',
      attempt: 0,
      runAt: new Date(alone.stage.clock.now() + 30_000),
    })
  })

  test('can let its queue wait', async () => {
    const { stage } = await runOnce((ctx) => ctx.rateLimited('2s', 'queue'), {})
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => null)] })

    expect(await worker.tick()).toBe(0)
    await stage.clock.advance(2_000)
    expect(await worker.tick()).toBe(2)
    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('cannot say what is no scope or no time', async () => {
    const calls: ((ctx: JobContext) => unknown)[] = [
      (ctx) => ctx.rateLimited('soon' as never),
      (ctx) => ctx.rateLimited('2d'),
      (ctx) => ctx.rateLimited('1s', 'world' as never),
      (ctx) => ctx.rateLimited('1s', { limit: 'queue:default' }),
      (ctx) => ctx.rateLimited('1s', {} as never),
    ]
    for (const call of calls) {
      const { stage, id } = await runOnce(call, {})
      expect(await stage.get(id)).toMatchObject({ state: 'retrying', attempts: [{ error: { name: 'HoldfastError' } }] })
    }
  })

  const errors: [string, object][] = [
    ['a field retryAfter', { status: 429, retryAfter: 7 }],
    ['headers of fetch', { status: 429, headers: new Headers({ 'Retry-After': '7' }) }],
    ['a response with plain headers', { response: { status: 429, headers: { 'retry-after': '7' } } }],
    ['statusCode and plain headers', { statusCode: 429, headers: { 'Retry-After': 7 } }],
  ]
  test.each(errors)('may say so by an error of a 429 with %s', async (_, fields) => {
    const { stage, id } = await runOnce(() => Promise.reject(Object.assign(new Error('slow down'), fields)), { flow })

    expect(await stage.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
    expect((await stage.store.limits())[0]!.until).toEqual(new Date(stage.clock.now() + 7_000))
  })

  test('by an error of another status uses its attempt and waits as long as it says', async () => {
    const error = Object.assign(new Error('maintenance'), { status: 503, retryAfter: '7' })
    const { stage, id } = await runOnce(() => Promise.reject(error), { flow })

    expect(await stage.get(id)).toMatchObject({
      state: 'retrying',
      attempt: 1,
      runAt: new Date(stage.clock.now() + 7_000),
    })
  })

  test.each([
    { status: 429 },
    { status: 429, retryAfter: 'later' },
    { status: 429, retryAfter: -5 },
    { retryAfter: {} },
  ])('by an error that does not say how long fails as usual: %j', async (fields) => {
    const { stage, id } = await runOnce(() => Promise.reject(Object.assign(new Error('no'), fields)), { flow })

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', attempt: 1 })
  })

  test('by an error whose fields throw fails as usual', async () => {
    const error = new Error('odd')
    Object.defineProperty(error, 'status', {
      get: () => {
        throw new Error('no')
      },
    })
    const { stage, id } = await runOnce(() => Promise.reject(error), { flow })

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', attempt: 1 })
  })
})

describe('budgets', () => {
  test('what a handler spent is settled with its job', async () => {
    const stage = openStage()
    await stage.store.setLimit('tokens', { ...NO_LIMIT, rate: perSecond(100, 100, 'cost') }, 'ada')
    await stage.enqueue({ flow: { group: null, limits: ['tokens'], cost: 10 } })

    await stage.worker({ handlers: [work((_, ctx) => ctx.spent(75))] }).tick()

    expect(await stage.store.limits()).toMatchObject([{ tokens: 25 }])
  })

  test('what cannot be spent fails the attempt', async () => {
    const stage = openStage()
    const id = await stage.enqueue(inGroup('a'))

    await stage.worker({ handlers: [work((_, ctx) => ctx.spent(-1))] }).tick()

    expect((await stage.get(id)).state).toBe('retrying')
  })
})

describe('breakers', () => {
  const breaker = { failures: 0.5, of: 4, withinMs: 30_000, cooldownMs: 5_000, probes: 2 }

  test('a dependency that is down costs few attempts, and the jobs run when it is back', async () => {
    const stage = openStage()
    await stage.store.setLimit('api', { ...NO_LIMIT, breaker }, 'ada')
    await enqueueMany(stage, 50, limitedBy('api'))
    let calls = 0
    let isDown = true
    const worker = stage.worker({
      handlers: [
        work(() => {
          calls++
          if (isDown) throw new Error('down')
        }),
      ],
      concurrency: 5,
    })
    const upkeep = stage.upkeep()
    upkeep.start()
    await worker.start()
    await stage.clock.advance(60_000)
    const whileDown = calls
    isDown = false
    await stage.clock.advance(120_000)
    await worker.stop()
    await upkeep.stop()

    expect(whileDown).toBeLessThan(70)
    expect(await stage.store.stats(QUEUE)).toMatchObject({ ready: 0, retrying: 0, dead: 0 })
    expect(stage.heard('breaker.opened')[0]).toMatchObject({ limit: 'api' })
    expect(stage.heard('breaker.probed').length).toBeGreaterThan(0)
    expect(stage.heard('breaker.closed')).toHaveLength(1)
  })

  test('while jobs wait for an open breaker, wake-ups lead to claims at the usual pace', async () => {
    const stage = openStage()
    await stage.store.setLimit('api', { ...NO_LIMIT, breaker }, 'ada')
    await stage.enqueue(limitedBy('api'))
    await stage.store.observe([{ limit: 'api', ok: 0, failed: 100, overloaded: 0 }])
    const worker = stage.worker({ handlers: [work(() => null)] })
    await worker.start()
    await stage.clock.advance(100)
    const before = stage.calls('claim')

    for (let wakeUp = 0; wakeUp < 40; wakeUp++) {
      stage.store.wake([QUEUE])
      await stage.clock.advance(1)
    }
    const claims = stage.calls('claim') - before
    await worker.stop()

    expect(claims).toBeGreaterThan(4)
    expect(claims).toBeLessThan(25)
  })

  test('only what says something about the dependency is reported', async () => {
    const stage = openStage()
    await stage.store.setLimit('api', { ...NO_LIMIT, breaker: { ...breaker, of: 100 } }, 'ada')
    const runs: HandlerFunction<unknown>[] = [
      () => null,
      () => Promise.reject(new Error('down')),
      () => Promise.reject(new DropJob('not wanted')),
      (_, ctx) => ctx.snooze('1s'),
      (_, ctx) => ctx.rateLimited('1ms', 'job'),
    ]
    for (const run of runs) {
      await stage.enqueue(limitedBy('api'))
      await stage.worker({ handlers: [work(run)] }).tick()
    }

    expect(await stage.store.limits()).toMatchObject([{ breaker: { ok: 1, failed: 1 } }])
  })

  test('jobs without limits are not reported', async () => {
    const stage = openStage()
    await enqueueMany(stage, 3)
    await enqueueMany(stage, 3, inGroup('a'))

    await stage.worker({ handlers: [work(() => null)] }).tick()

    expect(stage.calls('observe')).toBe(0)
  })

  test('a store that takes no reports does not stop the worker', async () => {
    const stage = openStage()
    await stage.store.setLimit('api', { ...NO_LIMIT, breaker }, 'ada')
    const id = await stage.enqueue(limitedBy('api'))
    stage.fail(['observe'])

    await stage.worker({ handlers: [work(() => null)] }).tick()

    expect((await stage.get(id)).state).toBe('succeeded')
  })
})

describe('the limit of a type', () => {
  const charge = defineJob('charge', { concurrency: 2, breaker: {} })

  test('is written when a worker starts', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [charge.handle(() => null)] })
    await worker.start()
    await worker.stop()

    expect(await stage.store.limits()).toMatchObject([
      { name: 'type:charge', concurrency: 2, origin: 'definition', breaker: { position: 'closed' } },
    ])
  })

  test('stays what an operator has set', async () => {
    const stage = openStage()
    await stage.store.setLimit('type:charge', { ...NO_LIMIT, concurrency: 9 }, 'ada')
    const worker = stage.worker({ handlers: [charge.handle(() => null)] })
    await worker.start()
    await worker.stop()

    expect(await stage.store.limits()).toMatchObject([{ concurrency: 9, origin: 'operator' }])
  })

  test('does not keep a worker from starting while the store is away', async () => {
    const stage = openStage()
    stage.fail(['setLimit'])
    const worker = stage.worker({ handlers: [charge.handle(() => null)] })

    await worker.start()

    expect(worker.isRunning).toBe(true)
    expect(stage.heard('store.failed')).toMatchObject([{ during: 'set limit' }])
    await worker.stop()
  })
})

describe('weighted queues', () => {
  test('start jobs by their weights, with one slot too', async () => {
    for (const concurrency of [1, 7]) {
      const stage = openStage()
      for (const queue of ['critical', 'usual', 'low']) await enqueueMany(stage, 300, { queue })
      const counts: Record<string, number> = {}
      let started = 0
      const handlers = [
        work((_, ctx) => {
          if (started++ < 200) counts[ctx.queue] = (counts[ctx.queue] ?? 0) + 1
        }),
      ]
      const worker = stage.worker({ handlers, queues: { critical: 6, usual: 3, low: 1 }, concurrency, prefetch: 0 })
      for (let round = 0; round < 400 && started < 200; round++) await worker.tick()

      expect(counts.critical! >= 110 && counts.critical! <= 130).toBe(true)
      expect(counts.low! >= 15 && counts.low! <= 25).toBe(true)
    }
  })

  test('leave what an empty queue does not need to the others', async () => {
    const stage = openStage()
    await enqueueMany(stage, 20, { queue: 'low' })
    const worker = stage.worker({
      handlers: [work(() => null)],
      queues: { critical: 1_000, low: 1 },
      concurrency: 5,
      prefetch: 0,
    })
    let rounds = 0
    while ((await stage.store.stats('low')).ready > 0 && rounds++ < 50) await worker.tick()

    expect(rounds).toBeLessThan(10)
  })

  test.each([
    { queues: {} },
    { queues: { a: 0 } },
    { queues: { a: 1.5 } },
    { queues: { 'a b': 1 } },
    { queues: { a: '1' } },
  ])('are refused: %j', (options) => {
    const stage = openStage()

    expect(() => stage.worker({ handlers: [work(() => null)], ...(options as object) })).toThrow(/queue/)
  })

  test('shares are the whole room, and carry over what they lack', () => {
    const shares = new WeightedShares(
      new Map([
        ['a', 6],
        ['b', 3],
        ['c', 1],
      ]),
    )
    const totals = new Map<string, number>()
    for (let round = 0; round < 100; round++) {
      const split = shares.split(['a', 'b', 'c'], 3)
      expect(split.reduce((sum, { limit }) => sum + limit, 0)).toBe(3)
      for (const { queue, limit } of split) totals.set(queue, (totals.get(queue) ?? 0) + limit)
    }

    expect(Object.fromEntries(totals)).toEqual({ a: 180, b: 90, c: 30 })
  })
})

describe('batches', () => {
  const push = defineJob<number>('push')

  test('jobs are handled together, up to the maximum', async () => {
    const stage = openStage()
    for (let index = 0; index < 25; index++) await stage.enqueue({ type: 'push', payload: String(index) })
    const sizes: number[] = []
    const handler = push.handleBatch({ max: 10 }, (jobs) => {
      sizes.push(jobs.length)
      return jobs.map(({ payload }) => payload * 2)
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 25 })
    await worker.start()
    await stage.clock.advance(100)
    await worker.stop()

    expect(sizes).toEqual([10, 10, 5])
    expect(await stage.store.stats(QUEUE)).toMatchObject({ ready: 0, running: 0 })
  })

  test('each job has its own end', async () => {
    const stage = openStage()
    const ids: string[] = []
    for (let index = 0; index < 4; index++) ids.push(await stage.enqueue({ type: 'push', payload: String(index) }))
    const ends = [7, new Error('no'), new DropJob('gone'), null]
    const handler = push.handleBatch({ max: 4 }, () => ends)

    await stage.worker({ handlers: [handler] }).tick()

    const views = await Promise.all(ids.map((id) => stage.get(id)))
    expect(views.map(({ state }) => state)).toEqual(['succeeded', 'retrying', 'dead', 'succeeded'])
    expect(views[0]!.result).toBe(7)
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('all')
      },
    ],
    ['answers with too few', () => [1]],
    ['answers with no array', () => 'done'],
  ])('all jobs fail when the handler %s', async (_, run) => {
    const stage = openStage()
    const ids = [
      await stage.enqueue({ type: 'push', payload: '1' }),
      await stage.enqueue({ type: 'push', payload: '2' }),
    ]

    await stage.worker({ handlers: [push.handleBatch({ max: 2 }, run as never)] }).tick()

    for (const id of ids) expect((await stage.get(id)).state).toBe('retrying')
  })

  test('a batch of one group holds jobs of that group alone', async () => {
    const stage = openStage()
    for (let index = 0; index < 6; index++) {
      await stage.enqueue({ type: 'push', payload: '1', ...inGroup(index % 2 === 0 ? 'a' : 'b') })
    }
    const batches: string[] = []
    const handler = push.handleBatch({ max: 10, sameGroup: true }, (jobs) => {
      batches.push(jobs.map(({ ctx }) => ctx.group).join(''))
      return jobs
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 10 })
    await worker.start()
    await stage.clock.advance(100)
    await worker.stop()

    expect(batches.sort()).toEqual(['aaa', 'bbb'])
  })

  test('a job that was lost with a worker runs alone', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ type: 'push', payload: '1' })
    const [lost] = (
      await stage.store.claim({ queues: [{ queue: QUEUE, limit: 1 }], types: null, worker: 'x', leaseMs: 1 })
    ).jobs
    await stage.clock.advance(10)
    const settlement = { state: 'ready', attempt: 1, crashes: 1 } as const
    const settled = { ...lost!, settlement, result: null, error: null, ranMs: null }
    await stage.store.settle([settled], { onlyExpired: true })
    for (let index = 0; index < 3; index++) await stage.enqueue({ type: 'push', payload: '2' })
    const batches: string[][] = []
    const handler = push.handleBatch({ max: 10 }, (jobs) => {
      batches.push(jobs.map(({ ctx }) => ctx.id))
      return jobs.map(() => null)
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 10 })
    await worker.start()
    await stage.clock.advance(1_000)
    await worker.stop()

    expect(batches.find((batch) => batch.includes(id))).toEqual([id])
    expect(batches.flat()).toHaveLength(4)
  })

  test.each([
    { max: 0 },
    { max: 1.5 },
    { max: 1_001 },
    { max: 5, linger: '1m' },
    { max: 5, sameGroup: 1 },
    { size: 5 },
  ])('%j is refused', (options) => {
    expect(() => push.handleBatch(options as never, () => [])).toThrow(/handleBatch of "push"/)
  })
})
