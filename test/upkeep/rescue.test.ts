import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { RescueHold } from '../../src/upkeep/rescue-hold.js'
import { openStage, type Stage, unavailable } from '../worker/stage.js'

// A claim by a worker that then disappears.
async function claimAndVanish(stage: Stage, options: { begin?: boolean; leaseMs?: number } = {}): Promise<void> {
  const { begin = false, leaseMs = 1_000 } = options
  const request = { queues: [{ queue: 'default', limit: 1_000 }], types: null, worker: 'gone', leaseMs }
  const { jobs } = await stage.store.claim(request)
  if (begin) await stage.store.begin(jobs)
}

describe('rescue', () => {
  test('a lease that ran out is a failed attempt that names the worker', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    await claimAndVanish(stage)

    await stage.clock.advance(1_000)
    await stage.upkeep().tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'ready', crashes: 1, attempt: 1, error: { code: 'worker_lost' } })
    expect(job.error!.message).toContain('gone')
    expect(job.attempts).toHaveLength(1)
    expect(stage.heard('job.rescued')).toMatchObject([{ id, worker: 'gone', state: 'ready', crashes: 1 }])
  })

  test('a lease that still holds is left alone', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    await claimAndVanish(stage)

    await stage.clock.advance(999)
    await stage.upkeep().tick()

    expect(await stage.get(id)).toMatchObject({ state: 'running' })
  })

  test('a suspect whose handler had not started is given back without a mark', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const upkeep = stage.upkeep({ hold: 0 })
    await claimAndVanish(stage)
    await stage.clock.advance(1_000)
    await upkeep.tick()
    await stage.clock.advance(3_600_000)
    await upkeep.tick()

    await claimAndVanish(stage, { begin: false })
    await stage.clock.advance(1_000)
    await upkeep.tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'ready', attempt: 1, crashes: 1 })
    expect(job.attempts).toHaveLength(1)
  })

  test('three crashes make a job dead: crashed', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const upkeep = stage.upkeep({ hold: 0 })

    for (let round = 0; round < 3; round++) {
      await claimAndVanish(stage, { begin: true })
      await stage.clock.advance(1_000)
      await upkeep.tick()
      await stage.clock.advance(3_600_000)
      await upkeep.tick()
    }

    expect(await stage.get(id)).toMatchObject({ state: 'dead', reason: 'crashed', crashes: 3 })
  })

  test('limits come from what the store keeps: the job, then its queue', async () => {
    const stage = openStage()
    await stage.store.setQueue('default', { limits: { maxAttempts: 1 } }, 'test')
    const byQueue = await stage.enqueue()
    const byJob = await stage.enqueue({ limits: { maxAttempts: 2 } })
    await claimAndVanish(stage)

    await stage.clock.advance(1_000)
    await stage.upkeep().tick()

    expect(await stage.get(byQueue)).toMatchObject({ state: 'dead', reason: 'attempts' })
    expect(await stage.get(byJob)).toMatchObject({ state: 'ready' })
  })

  test('two processes that find the same lease count one crash', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    await claimAndVanish(stage)
    await stage.clock.advance(1_000)

    await Promise.all([stage.upkeep().tick(), stage.upkeep().tick()])

    expect(await stage.get(id)).toMatchObject({ crashes: 1 })
    expect(stage.heard('job.rescued')).toHaveLength(1)
  })

  test('the jobs of a killed worker go on within two seconds of their leases running out', async () => {
    const stage = openStage()
    const ids: string[] = []
    for (let index = 0; index < 600; index++) ids.push(await stage.enqueue())
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(10_000)
    await claimAndVanish(stage, { leaseMs: 30_000 })

    await stage.clock.advance(32_000)
    await upkeep.stop()

    expect(stage.heard('job.rescued')).toHaveLength(600)
  })
})

describe('rescue holds', () => {
  test('when the store has just come up, until living workers had time to extend', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    await claimAndVanish(stage)
    await stage.clock.advance(1_000)
    const upSinceMs = stage.clock.now() - 5_000
    const { expired } = stage.store
    const answering: Store['expired'] = async (limit) => ({
      ...(await expired(limit)),
      upMs: stage.clock.now() - upSinceMs,
    })
    ;(stage.store as { expired: Store['expired'] }).expired = answering
    const upkeep = stage.upkeep({ hold: '15s' })
    upkeep.start()

    await stage.clock.advance(9_500)
    const held = await stage.get(id)
    await stage.clock.advance(2_500)
    await upkeep.stop()

    expect(held.state).toBe('running')
    expect(await stage.get(id)).toMatchObject({ crashes: 1 })
    expect(stage.heard('rescue.held')).toMatchObject([{ why: 'the store has just come up' }])
  })

  test('after contact was lost', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const upkeep = stage.upkeep({ hold: '15s' })
    upkeep.start()
    await stage.clock.advance(5_000)
    await claimAndVanish(stage, { leaseMs: 10_000 })

    stage.fail()
    await stage.clock.advance(20_000)
    stage.heal()
    await stage.clock.advance(14_000)
    const held = await stage.get(id)
    await stage.clock.advance(4_000)
    await upkeep.stop()

    expect(held.state).toBe('running')
    expect(await stage.get(id)).toMatchObject({ crashes: 1 })
    expect(stage.heard('rescue.held')).toMatchObject([{ why: 'the store could not be reached' }])
  })

  test("after the store's clock jumped forward, and a worker that extends meanwhile keeps its job", async () => {
    const stage = openStage()
    const living = await stage.enqueue()
    const upkeep = stage.upkeep({ hold: '15s' })
    upkeep.start()
    await stage.clock.advance(5_000)
    const request = { queues: [{ queue: 'default', limit: 1 }], types: null, worker: 'living', leaseMs: 30_000 }
    const { jobs } = await stage.store.claim(request)

    stage.clock.set(stage.clock.now() + 3_600_000)
    await stage.clock.advance(10_000)
    await stage.store.extend(jobs, 30_000)
    await stage.clock.advance(20_000)
    await upkeep.stop()

    expect(await stage.get(living)).toMatchObject({ state: 'running', crashes: 0 })
    expect(stage.heard('rescue.held')).toMatchObject([{ why: "the store's clock jumped forward" }])
  })

  test('not at all in ordinary times', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(60_000)
    await stage.enqueue()
    await claimAndVanish(stage)

    await stage.clock.advance(3_000)
    await upkeep.stop()

    expect(stage.heard('rescue.held')).toEqual([])
    expect(stage.heard('job.rescued')).toHaveLength(1)
  })

  test('when this process was away longer than three rounds', () => {
    const hold = new RescueHold({ holdMs: 15_000, gapMs: 7_000 })
    const look = (nowMs: number) => hold.look({ nowMs, storeNowMs: nowMs, upMs: null })

    expect(look(0)).toBeNull()
    expect(look(7_000)).toBeNull()
    expect(look(14_001)).toEqual({ why: 'this process was away from the store', forMs: 15_000 })
    expect(look(16_001)).toMatchObject({ forMs: 13_000 })
    expect(look(22_000)).toMatchObject({ forMs: 7_001 })
    expect(look(29_000)).toMatchObject({ forMs: 1 })
    expect(look(29_001)).toBeNull()
  })

  test('also when the settlement of what expired failed', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    await claimAndVanish(stage)
    await stage.clock.advance(1_000)
    const upkeep = stage.upkeep({ hold: '15s' })

    stage.fail(['settle'], { error: unavailable() })
    await expect(upkeep.tick()).rejects.toMatchObject({ code: 'store_unavailable' })
    stage.heal()
    await upkeep.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'running' })
  })
})
