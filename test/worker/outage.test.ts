import { describe, expect, test } from 'vitest'
import { HoldfastError } from '../../src/core/errors.js'
import type { SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { gate, openStage, type Stage, work } from './stage.js'

describe('while the store is away', () => {
  test('claims are tried again with pauses, and the first job starts within two seconds of its return', async () => {
    const stage = openStage()
    let startedAtMs = 0
    const worker = stage.worker({
      handlers: [
        work(() => {
          startedAtMs = stage.clock.monotonic()
        }),
      ],
    })

    stage.fail()
    await worker.start()
    await stage.clock.advance(60_000)
    const tries = stage.calls('claim')
    stage.heal()
    const backMs = stage.clock.monotonic()
    await stage.enqueue()
    await stage.clock.advance(2_000)
    await worker.stop()

    expect(tries).toBeLessThan(150)
    expect(startedAtMs - backMs).toBeLessThanOrEqual(2_000)
    expect(startedAtMs).toBeGreaterThan(0)
    expect(stage.heard('store.recovered').map(({ during }) => during)).toContain('claim')
  })

  test('settlements are kept and take effect when it returns, and nothing runs twice', async () => {
    const stage = openStage()
    const ids = [await stage.enqueue(), await stage.enqueue(), await stage.enqueue()]
    const end = gate()
    let calls = 0
    const worker = stage.worker({
      handlers: [
        work(async () => {
          calls++
          await end.promise
        }),
      ],
    })

    await worker.start()
    await stage.clock.advance(10)
    stage.fail()
    end.open()
    await stage.clock.advance(20_000)
    const during = await Promise.all(ids.map(async (id) => (await stage.get(id)).state))
    stage.heal()
    await stage.clock.advance(2_000)
    await worker.stop()

    expect(during).toEqual(['running', 'running', 'running'])
    for (const id of ids) expect(await stage.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 })
    expect(calls).toBe(3)
  })

  test('a settlement whose answer was lost is sent again and counts once', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => 'once')] })

    stage.fail(['settle'], { lose: true })
    const ticking = worker.tick()
    await stage.clock.advance(50)
    const during = await stage.get(id)
    stage.heal()
    await stage.clock.advance(1_000)
    await ticking

    expect(during.state).toBe('succeeded')
    expect(stage.heard('job.settled')).toMatchObject([{ id, state: 'succeeded' }])
    expect(stage.heard('lease.lost')).toEqual([])
  })

  test('a claim whose answer was lost is rescued when its leases run out', async () => {
    const stage = openStage()
    const id = await stage.enqueue({
      limits: { retry: { backoff: 'fixed', baseMs: 1_000, capMs: 1_000, jitter: false } },
    })
    const worker = stage.worker({ handlers: [work(() => 'ran')], lease: '5s' })
    const upkeep = stage.upkeep()

    stage.fail(['claim'], { lose: true })
    await worker.start()
    await stage.clock.advance(100)
    stage.heal()
    upkeep.start()
    await stage.clock.advance(10_000)
    await worker.stop()
    await upkeep.stop()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: 'ran', crashes: 1 })
  })

  test('answers that stay away lose few more jobs than the first claim asked for', async () => {
    const stage = openStage()
    for (let index = 0; index < 1_000; index++) await stage.enqueue()
    const worker = stage.worker({ handlers: [work(() => {})], concurrency: 100, prefetch: 0, lease: '1h' })

    stage.fail(['claim'], { lose: true })
    await worker.start()
    await stage.clock.advance(10_000)
    const { running } = await stage.store.stats('default')
    stage.heal()
    await stage.clock.advance(2_000)
    await worker.stop()

    expect(running).toBeLessThanOrEqual(100 + 10 * stage.calls('claim'))
    expect(running).toBeLessThan(300)
    expect((await stage.store.stats('default')).ready).toBe(0)
  })

  test('a worker claims no more while too many settlements wait', async () => {
    const stage = openStage()
    for (let index = 0; index < 3_000; index++) await stage.enqueue()
    let calls = 0
    const worker = stage.worker({ handlers: [work(() => void calls++)], concurrency: 10, prefetch: 10 })

    stage.fail(['settle'])
    await worker.start()
    await stage.clock.advance(20_000)
    const during = calls
    stage.heal()
    await stage.clock.advance(3_000)
    await worker.stop()

    expect(during).toBeLessThanOrEqual(1_300)
    expect(calls).toBe(3_000)
    expect(stage.heard('lease.lost')).toEqual([])
  })

  test('the worker runs on when its life sign fails', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => 'ok')] })

    stage.fail(['beat', 'leave'])
    await worker.start()
    const id = await stage.enqueue()
    await stage.clock.advance(30_000)
    await worker.stop()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded' })
    expect(stage.heard('store.failed').every(({ during }) => during === 'beat')).toBe(true)
  })
})

describe('a settlement the store refuses', () => {
  test('is found among its neighbours and sent without what offended', async () => {
    const stage = openStage()
    const ids: string[] = []
    for (let index = 0; index < 9; index++) ids.push(await stage.enqueue({ payload: `{"n":${index}}` }))
    refuse(stage, ({ result }) => result?.includes('bad') === true)
    const worker = stage.worker({
      handlers: [work((payload) => ((payload as { n: number }).n === 4 ? 'bad' : 'good'))],
    })

    await worker.tick()

    const results = await Promise.all(ids.map(async (id) => (await stage.get(id)).result))
    expect(results.filter((result) => result === 'good')).toHaveLength(8)
    expect(results[4]).toMatchObject({ unserializable: true })
  })

  test('with an error that offends it keeps the state and says that the error was lost', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    refuse(stage, ({ error }) => error?.message === 'bad')
    const worker = stage.worker({
      handlers: [
        work(() => {
          throw new Error('bad')
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { code: 'store_refused' } })
  })

  test('even bare is given up loudly, and its lease runs out', async () => {
    const stage = openStage()
    const bad = await stage.enqueue()
    const good = await stage.enqueue()
    refuse(stage, ({ id }) => id === bad)

    await stage.worker({ handlers: [work(() => 'ok')] }).tick()

    expect(await stage.get(good)).toMatchObject({ state: 'succeeded' })
    expect(await stage.get(bad)).toMatchObject({ state: 'running' })
    expect(stage.heard('store.failed').some(({ error }) => error.message.includes(bad))).toBe(true)
  })
})

function refuse(stage: Stage, offends: (job: SettledJob) => boolean): void {
  const { settle } = stage.store
  const refusing: Store['settle'] = async (jobs, options) => {
    if (jobs.some(offends)) throw new HoldfastError('store_refused', 'a value is out of range')
    return settle(jobs, options)
  }
  ;(stage.store as { settle: Store['settle'] }).settle = refusing
}
