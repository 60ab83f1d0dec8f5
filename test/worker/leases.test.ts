import { describe, expect, test } from 'vitest'
import type { Lease } from '../../src/core/job.js'
import { type KeeperReport, LeaseKeeper, mayKeepWhileBlocked } from '../../src/worker/lease-keeper.js'
import { LeaseTable } from '../../src/worker/lease-table.js'
import { gate, openStage, type Stage, whenAborted, work } from './stage.js'

const ID = '0198b2f0-7d3a-7000-8000-00000000000'

describe('a lease', () => {
  test('is extended for as long as its job runs', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], lease: '30s' })
    const upkeep = stage.upkeep()

    await worker.start()
    upkeep.start()
    await stage.clock.advance(600_000)
    const during = await stage.get(id)
    end.open()
    await worker.stop()
    await upkeep.stop()

    expect(during).toMatchObject({ state: 'running', attempt: 1, worker: worker.id })
    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', attempt: 1, crashes: 0 })
    expect(stage.heard('lease.lost')).toEqual([])
    expect(stage.heard('lease.extended').length).toBeGreaterThanOrEqual(59)
  })

  test('that is lost aborts its handler with lease_lost, and what the handler returns changes nothing', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    let reason: unknown
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          reason = await whenAborted(ctx.signal)
          return 'from the run that lost'
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    const claimed = await takeAway(stage)
    await stage.clock.advance(10_000)
    await ticking

    expect(reason).toMatchObject({ code: 'lease_lost' })
    expect(stage.heard('lease.lost')).toMatchObject([{ id }])
    expect(stage.heard('lease.lost')[0]!.fence).toBeLessThan(claimed.fence)
    expect(await stage.get(id)).toMatchObject({ state: 'running', worker: 'thief', result: null })
  })

  test('that is lost together with a later one of the same job aborts its handler at the same time', async () => {
    const stage = openStage()
    await stage.enqueue()
    const aborted: { readonly attempt: number; readonly atMs: number }[] = []
    const worker = stage.worker({
      handlers: [
        work(async (_payload, { attempt, signal }) => {
          await whenAborted(signal)
          aborted.push({ attempt, atMs: stage.clock.now() })
        }),
      ],
      concurrency: 2,
    })

    await worker.start()
    await stage.clock.advance(0)
    stage.fail(['extend', 'watch'])
    await giveBack(stage)
    await stage.clock.advance(5_000)
    await takeAway(stage)
    stage.heal()
    await stage.clock.advance(10_000)
    await worker.stop()

    expect(aborted.map(({ attempt }) => attempt).sort()).toEqual([1, 2])
    expect(aborted[0]!.atMs).toBe(aborted[1]!.atMs)
  })

  test('that is lost leaves the later run of the same job in the same worker alone', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const aborted: number[] = []
    const worker = stage.worker({
      handlers: [
        work(async (_payload, { attempt, signal }) => {
          await Promise.race([end.promise, whenAborted(signal).then(() => aborted.push(attempt))])
        }),
      ],
      concurrency: 2,
    })

    await worker.start()
    await stage.clock.advance(0)
    stage.fail(['extend', 'watch'])
    await giveBack(stage)
    await stage.clock.advance(5_000)
    stage.heal()
    await stage.clock.advance(10_000)
    end.open()
    await worker.stop()

    expect(aborted).toEqual([1])
    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', attempt: 2 })
  })

  test('that is lost unnoticed is refused by the fence when the job is settled', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)] })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await takeAway(stage)
    end.open()
    await ticking

    expect(stage.heard('lease.lost')).toHaveLength(1)
    expect(stage.heard('job.settled')).toEqual([])
    expect(await stage.get(id)).toMatchObject({ state: 'running', worker: 'thief' })
  })

  test('of a job that waits here is let go when it is lost, and its handler never starts', async () => {
    const stage = openStage()
    await stage.enqueue()
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
      lease: '3s',
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await takeAway(stage, second)
    await stage.clock.advance(1_000)
    end.open()
    await ticking

    expect(started).not.toContain(second)
    expect(await stage.get(second)).toMatchObject({ worker: 'thief' })
  })

  test('of a stuck handler that lost it only frees the slot', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => new Promise(() => {}))] })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    await takeAway(stage)
    await stage.clock.advance(15_000)
    await ticking

    expect(stage.heard('job.stuck')).toHaveLength(1)
    expect(await stage.get(id)).toMatchObject({ state: 'running', worker: 'thief' })
  })

  test('that cannot be extended in time keeps a waiting job from starting', async () => {
    const stage = openStage()
    await stage.enqueue()
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
      lease: '2s',
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    stage.fail(['extend', 'settle', 'watch'])
    await stage.clock.advance(1_700)
    end.open()
    await stage.clock.advance(1)
    stage.heal()
    await stage.clock.advance(1_000)
    await ticking

    expect(started).not.toContain(second)
    expect(await stage.get(second)).toMatchObject({ state: 'ready', attempt: 0 })
  })

  test('is extended again soon after the store came back', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], lease: '30s' })

    await worker.start()
    await stage.clock.advance(9_000)
    stage.fail(['extend'])
    await stage.clock.advance(10_000)
    stage.heal()
    await stage.clock.advance(1_000)
    const { leasedUntil } = await stage.get(id)
    end.open()
    await worker.stop()

    expect(leasedUntil!.getTime() - stage.clock.now()).toBeGreaterThan(28_000)
    expect(stage.heard('store.recovered')).toMatchObject([{ during: 'extend' }])
  })
})

// Lets the lease run out, rescues the job and claims it for another worker.
async function takeAway(stage: Stage, id?: string): Promise<Lease> {
  const queue = await giveBack(stage, id)
  const request = { queues: [{ queue, limit: 1 }], types: null, worker: 'thief', leaseMs: 3_600_000 }
  const [claimed] = (await stage.store.claim({ ...request })).jobs
  return claimed!
}

/** Ends a job's lease as if it had run out, unnoticed by its worker, and returns the job's queue. */
async function giveBack(stage: Stage, id?: string): Promise<string> {
  const { store } = stage
  const expiring = (await store.list({ filter: { states: ['running'] }, limit: 10, before: null })).jobs
  const { id: jobId } = expiring.find((job) => id === undefined || job.id === id)!
  const nowMs = stage.clock.now()
  stage.clock.set(nowMs + 60_000)
  const { fence, queue, attempt } = (await store.expired(10)).jobs.find((job) => job.id === jobId)!
  const settlement = { state: 'ready', attempt, crashes: 0 } as const
  const settled = { id: jobId, fence, queue, settlement, result: null, error: null, ranMs: null, idempotencyKey: null }
  await store.settle([settled], { onlyExpired: true })
  stage.clock.set(nowMs)
  return queue
}

describe('the lease table', () => {
  test('gives back what it holds, also through another view of the same memory', () => {
    const table = LeaseTable.withRoomFor(3, ['mail', 'default'])
    const slot = table.hold({ id: `${ID}1`, fence: 1_700_000_000_001, queue: 'default' })
    table.hold({ id: `${ID}2`, fence: 2, queue: 'mail' })
    table.start(slot, 12.5, 30_000)

    const held = new LeaseTable(table.buffer, table.queues).read()

    expect(held).toEqual([
      { id: `${ID}1`, fence: 1_700_000_000_001, queue: 'default', startedMs: 12.5, timeoutMs: 30_000 },
      { id: `${ID}2`, fence: 2, queue: 'mail', startedMs: null, timeoutMs: null },
    ])
    expect(table.room).toBe(1)
  })

  test('forgets what was dropped and uses its slot again', () => {
    const table = LeaseTable.withRoomFor(1, ['default'])
    const slot = table.hold({ id: `${ID}1`, fence: 1, queue: 'default' })
    table.start(slot, 5, 10)

    table.drop(slot)
    const empty = table.read()
    table.hold({ id: `${ID}2`, fence: 2, queue: 'default' })

    expect(empty).toEqual([])
    expect(table.read()).toEqual([{ id: `${ID}2`, fence: 2, queue: 'default', startedMs: null, timeoutMs: null }])
    expect(() => table.hold({ id: `${ID}3`, fence: 3, queue: 'default' })).toThrow(RangeError)
  })
})

describe('leases while the main thread is blocked', () => {
  const lease = { id: `${ID}1`, fence: 1, queue: 'default' }

  test('a job with a timeout is kept until its time is up', () => {
    const held = { ...lease, startedMs: 1_000, timeoutMs: 90_000 }

    expect(mayKeepWhileBlocked(held, 2_000, 89_000)).toBe(true)
    expect(mayKeepWhileBlocked(held, 2_000, 89_001)).toBe(false)
  })

  test('a job without one, or one that waits, is kept for a minute', () => {
    for (const held of [
      { ...lease, startedMs: 1_000, timeoutMs: null },
      { ...lease, startedMs: null, timeoutMs: null },
    ]) {
      expect(mayKeepWhileBlocked(held, 2_000, 60_000)).toBe(true)
      expect(mayKeepWhileBlocked(held, 2_000, 60_001)).toBe(false)
    }
  })

  test('a keeper apart goes on extending while ticks stop, only as long as each job allows, and again when they return', async () => {
    const { clock, ports } = openStage()
    const table = LeaseTable.withRoomFor(2, ['default'])
    const short = table.hold({ id: `${ID}1`, fence: 1, queue: 'default' })
    table.hold({ id: `${ID}2`, fence: 1, queue: 'default' })
    table.start(short, clock.monotonic(), 25_000)
    const extended: string[][] = []
    const reports: KeeperReport[] = []
    const keeper = new LeaseKeeper({
      ports,
      table,
      extend: async (leases) => {
        extended.push(leases.map(({ id }) => id.slice(-1)))
        return { lost: [], cancelled: [] }
      },
      report: (report) => reports.push(report),
      leaseMs: 30_000,
      heartbeatMs: 10_000,
      isApart: true,
    })

    table.tick(clock.monotonic())
    keeper.start()
    await clock.advance(79_000)
    table.tick(clock.monotonic())
    await clock.advance(1_000)
    await keeper.stop()

    expect(extended).toEqual([['1', '2'], ['1', '2'], ['2'], ['2'], ['2'], ['2'], ['1', '2']])
    expect(
      reports.filter(({ kind }) => kind === 'extended').map((report) => 'fromMs' in report && report.fromMs),
    ).toEqual([0, 0, 0, 0, 0, 0, 79_000])
  })
})
