import { describe, expect, test } from 'vitest'
import type { NewBulk } from '../../src/core/operating.js'
import { openStage, type Stage } from '../worker/stage.js'

async function openDead(count: number): Promise<Stage> {
  const stage = openStage()
  for (let index = 0; index < count; index++) await stage.enqueue()
  const queues = [{ queue: 'default', limit: count }]
  const { jobs } = await stage.store.claim({ queues, types: null, worker: 'w', leaseMs: 30_000 })
  const ended = { result: null, error: { name: 'Error', message: 'boom' }, ranMs: 1, idempotencyKey: null } as const
  const settlement = { state: 'dead', attempt: 1, crashes: 0, reason: 'attempts' } as const
  await stage.store.settle(jobs.map(({ id, fence, queue }) => ({ id, fence, queue, settlement, ...ended })))
  return stage
}

const ID = '019ca945-0a09-7878-92ce-4430c91506ae'
const BULK: NewBulk = {
  ...{ id: ID, action: 'requeue', filter: { states: ['dead'] }, by: 'ann', perSecond: null, limit: 1_000_000 },
  expected: null,
}

describe('bulk', () => {
  test('an action is done batch by batch, and each is reported', async () => {
    const stage = await openDead(1_200)
    await stage.store.startBulk(BULK)

    await stage.upkeep().tick()

    expect(stage.heard('bulk.stepped').map(({ id, moved, state }) => [id, moved, state])).toEqual([
      [ID, 500, 'running'],
      [ID, 500, 'running'],
      [ID, 200, 'done'],
    ])
    expect((await stage.store.stats('default')).ready).toBe(1_200)
  })

  test('an action of another process begins within ten seconds', async () => {
    const stage = await openDead(1)
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(20_000)

    await stage.store.startBulk(BULK)
    await stage.clock.advance(10_000)
    await upkeep.stop()

    expect(await stage.store.getBulk(ID)).toMatchObject({ state: 'done', done: 1 })
  })

  test('an action of this process begins immediately', async () => {
    const stage = await openDead(1)
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(20_000)

    await stage.store.startBulk(BULK)
    upkeep.nudgeBulks()
    await stage.clock.advance(0)
    await upkeep.stop()

    expect(await stage.store.getBulk(ID)).toMatchObject({ state: 'done', done: 1 })
  })

  test('a paced action keeps its pace', async () => {
    const stage = await openDead(100)
    const upkeep = stage.upkeep()
    await stage.store.startBulk({ ...BULK, perSecond: 8 })
    upkeep.start()

    await stage.clock.advance(5_000)
    const { done } = (await stage.store.getBulk(ID))!
    await upkeep.stop()

    expect(done).toBeGreaterThan(20)
    expect(done).toBeLessThanOrEqual(40)
  })

  test('without actions the store is asked seldom', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()

    await stage.clock.advance(60_000)
    await upkeep.stop()

    expect(stage.calls('stepBulk')).toBeLessThanOrEqual(18)
  })
})

describe('sample', () => {
  test('how much is where is written down every ten seconds', async () => {
    const stage = openStage()
    const sinceMs = stage.clock.now()
    await stage.enqueue()
    const upkeep = stage.upkeep()
    upkeep.start()

    await stage.clock.advance(120_000)
    await upkeep.stop()

    const points = await stage.store.series({ queue: 'default', sinceMs, stepMs: 10_000 })
    expect(points.slice(0, 12).map(({ depth }) => depth?.ready)).toEqual(Array(12).fill(1))
  })
})
