import { describe, expect, test } from 'vitest'
import { openStage } from '../worker/stage.js'

describe('promote', () => {
  test('a timed job is ready at its time, to the millisecond when this process was nudged', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(10_000)
    const id = await stage.enqueue({ when: { delayMs: 123 } })
    upkeep.nudge(123)

    await stage.clock.advance(122)
    const before = (await stage.get(id)).state
    await stage.clock.advance(1)
    await upkeep.stop()

    expect(before).toBe('scheduled')
    expect((await stage.get(id)).state).toBe('ready')
    expect(stage.heard('job.promoted')).toEqual([{ name: 'job.promoted', count: 1 }])
  })

  test('a timed job of another process is ready within two seconds of its time', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(10_000)

    const id = await stage.enqueue({ when: { delayMs: 100 } })
    await stage.clock.advance(2_100)
    await upkeep.stop()

    expect((await stage.get(id)).state).toBe('ready')
  })

  test('a known time is met without a nudge', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ when: { delayMs: 7_777 } })
    const upkeep = stage.upkeep()
    upkeep.start()

    await stage.clock.advance(7_776)
    const before = (await stage.get(id)).state
    await stage.clock.advance(1)
    await upkeep.stop()

    expect([before, (await stage.get(id)).state]).toEqual(['scheduled', 'ready'])
  })

  test('a great many due at the same time are promoted in bounded calls, none left behind', async () => {
    const stage = openStage()
    for (let index = 0; index < 4_500; index++) await stage.enqueue({ when: { delayMs: 1_000 } })
    const upkeep = stage.upkeep()

    await stage.clock.advance(1_000)
    await upkeep.tick()

    expect(stage.calls('promote')).toBe(5)
    expect((await stage.store.stats('default')).ready).toBe(4_500)
  })

  test('a nudge during a failing time does not shorten the pause', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    stage.fail(['promote'])
    upkeep.start()
    await stage.clock.advance(10_000)
    const before = stage.calls('promote')

    for (let index = 0; index < 100; index++) upkeep.nudge(0)
    await stage.clock.advance(0)
    const after = stage.calls('promote')
    stage.heal()
    await stage.clock.advance(1_000)
    await upkeep.stop()

    expect(after).toBe(before)
    expect(stage.heard('store.recovered')).toMatchObject([{ during: 'promote' }])
  })

  test('a process that is alone promotes each job at its time, when they are due far enough apart', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    const ids: string[] = []
    for (let index = 1; index <= 20; index++) ids.push(await stage.enqueue({ when: { delayMs: index * 300 } }))
    upkeep.start()

    const late: string[] = []
    for (const id of ids) {
      await stage.clock.advance(300)
      if ((await stage.get(id)).state !== 'ready') late.push(id)
    }
    await upkeep.stop()

    expect(late).toEqual([])
  })

  test('eight processes promote a stream of jobs with few calls, each job soon after its time', async () => {
    const stage = openStage()
    const upkeeps = Array.from({ length: 8 }, () => stage.upkeep())
    for (let index = 0; index < 300; index++) await stage.enqueue({ when: { delayMs: 1_000 + index * 10 } })
    for (const upkeep of upkeeps) upkeep.start()
    await stage.clock.advance(1_000)
    const before = stage.calls('promote')

    const late: number[] = []
    for (let ms = 1_000; ms < 4_300; ms += 10) {
      const { scheduled } = await stage.store.stats('default')
      // Those due by now that still wait, times ten, is how late the first of them is.
      late.push((scheduled - Math.max(0, 300 - (ms - 1_000) / 10 - 1)) * 10)
      await stage.clock.advance(10)
    }
    const calls = stage.calls('promote') - before
    await Promise.all(upkeeps.map((upkeep) => upkeep.stop()))

    expect((await stage.store.stats('default')).ready).toBe(300)
    // Without a pace every process calls for every job: 2,400 times.
    expect(calls).toBeLessThan(300)
    expect(Math.max(...late)).toBeLessThanOrEqual(150)
  })
})

describe('upkeep as a whole', () => {
  test('an idle process asks the store little more than once a second', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(10_000)
    const count = () =>
      (['promote', 'expired', 'due', 'prune'] as const).reduce((sum, method) => sum + stage.calls(method), 0)
    const before = count()

    await stage.clock.advance(100_000)
    await upkeep.stop()

    expect(count() - before).toBeLessThanOrEqual(150)
  })

  test('stop waits for the step in flight and nothing runs after it', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(5_000)

    await upkeep.stop()
    const calls = stage.calls('promote')
    upkeep.nudge()
    upkeep.nudgeSchedules()
    await stage.clock.advance(60_000)

    expect(stage.calls('promote')).toBe(calls)
  })

  test('prune drops what is past its retention and tells', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    await stage.store.cancel([id], 'test')
    const upkeep = stage.upkeep({ retention: '1d' })

    await stage.clock.advance(3 * 86_400_000)
    await upkeep.tick()

    expect(await stage.store.get(id)).toBeNull()
    expect(stage.heard('prune.done')).toMatchObject([{ days: ['2026-01-15'] }])
  })

  test.each([{ every: 1 }, { retention: -1 }, { hold: 'long' }])('%o is refused at construction', (options) => {
    const { upkeep } = openStage()

    expect(() => upkeep(options as object)).toThrow(expect.objectContaining({ code: 'invalid_option' }))
  })
})
