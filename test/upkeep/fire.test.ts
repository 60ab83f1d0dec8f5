import { describe, expect, test } from 'vitest'
import type { Schedule } from '../../src/core/schedule.js'
import { openStage, type Stage } from '../worker/stage.js'

const HOURLY: Schedule = {
  name: 'report',
  cron: '0 * * * *',
  zone: 'UTC',
  queue: 'default',
  type: 'report',
  payload: '{"kind":"hourly"}',
  version: 1,
  priority: 0,
  limits: {},
  tags: [],
  catchUp: 'latest',
  catchUpMax: 100,
  overlap: 'allow',
}
const HOUR_MS = 3_600_000

// The stage's clock starts at noon, so the first tick is at one.
async function setSchedule(stage: Stage, schedule: Partial<Schedule> = {}, inMs = HOUR_MS): Promise<void> {
  await stage.store.setSchedule({ ...HOURLY, ...schedule }, stage.clock.now() + inMs, 'test')
}

async function ticksOf(stage: Stage): Promise<string[]> {
  const { jobs } = await stage.store.list({ filter: { types: ['report'] }, limit: 200, before: null })
  return jobs.map(({ schedule }) => schedule!.tick.toISOString().slice(11, 16)).sort()
}

describe('jitter', () => {
  test('the job of a tick waits for a part of the jitter, the same in any process that fires it', async () => {
    const runsAt = async () => {
      const stage = openStage()
      await setSchedule(stage, { cron: '0 * * * * jitter 10m' })
      stage.upkeep().start()
      await stage.clock.advance(HOUR_MS)
      const { jobs } = await stage.store.list({ filter: { types: ['report'] }, limit: 1, before: null })
      return { state: jobs[0]!.state, lateMs: jobs[0]!.runAt!.getTime() - jobs[0]!.schedule!.tick.getTime() }
    }

    const [one, other] = [await runsAt(), await runsAt()]

    expect(one.state).toBe('scheduled')
    expect(one.lateMs).toBeGreaterThan(0)
    expect(one.lateMs).toBeLessThan(600_000)
    expect(other).toEqual(one)
  })
})

describe('fire', () => {
  test('a tick becomes one job at its time, with the schedule’s payload', async () => {
    const stage = openStage()
    await setSchedule(stage)
    const upkeep = stage.upkeep()
    upkeep.start()

    await stage.clock.advance(HOUR_MS - 1)
    const before = await ticksOf(stage)
    await stage.clock.advance(1)
    await upkeep.stop()

    expect(before).toEqual([])
    expect(await ticksOf(stage)).toEqual(['13:00'])
    const [fired] = stage.heard('schedule.fired')
    expect(fired).toMatchObject({ schedule: 'report', tick: new Date(stage.clock.now()) })
    expect(await stage.get(fired!.jobId!)).toMatchObject({
      type: 'report',
      payload: { kind: 'hourly' },
      state: 'ready',
    })
  })

  test('any number of processes make one job a tick', async () => {
    const stage = openStage()
    await setSchedule(stage)
    const processes = Array.from({ length: 10 }, () => stage.upkeep())

    for (let hour = 0; hour < 3; hour++) {
      await stage.clock.advance(HOUR_MS)
      await Promise.all(processes.map((upkeep) => upkeep.tick()))
    }

    expect(await ticksOf(stage)).toEqual(['13:00', '14:00', '15:00'])
    expect(stage.heard('schedule.fired')).toHaveLength(3)
  })

  test.each([
    ['skip', []],
    ['latest', ['15:00']],
    ['all', ['13:00', '14:00', '15:00']],
  ] as const)('after three and a half hours away, %s makes up for %j', async (catchUp, expected) => {
    const stage = openStage()
    await setSchedule(stage, { catchUp })

    await stage.clock.advance(3.5 * HOUR_MS)
    await stage.upkeep().tick()

    expect(await ticksOf(stage)).toEqual(expected)
    const [view] = await stage.store.schedules()
    expect(view!.nextAt).toEqual(new Date('2026-01-15T16:00:00Z'))
  })

  test('all makes up for no more than its bound, the latest ones', async () => {
    const stage = openStage()
    await setSchedule(stage, { catchUp: 'all', catchUpMax: 2 })

    await stage.clock.advance(9.5 * HOUR_MS)
    await stage.upkeep().tick()

    expect(await ticksOf(stage)).toEqual(['20:00', '21:00'])
  })

  test('a backlog beyond one firing is made up for in several', async () => {
    const stage = openStage()
    await setSchedule(stage, { cron: '* * * * *', catchUp: 'all', catchUpMax: 150 }, 60_000)
    const upkeep = stage.upkeep()

    await stage.clock.advance(150 * 60_000 + 30_000)
    upkeep.start()
    await stage.clock.advance(1_000)
    await upkeep.stop()

    expect(await ticksOf(stage)).toHaveLength(150)
  })

  test('a tick whose answer was lost is not made twice', async () => {
    const stage = openStage()
    await setSchedule(stage)
    const upkeep = stage.upkeep()
    upkeep.start()

    await stage.clock.advance(HOUR_MS - 10)
    stage.fail(['fire'], { lose: true })
    await stage.clock.advance(100)
    stage.heal()
    await stage.clock.advance(10_000)
    await upkeep.stop()

    expect(await ticksOf(stage)).toEqual(['13:00'])
  })

  test('a schedule that cannot be read is reported once in a while and stops no other', async () => {
    const stage = openStage()
    for (let index = 0; index < 60; index++) {
      await setSchedule(stage, { name: `broken-${String(index).padStart(2, '0')}`, cron: 'not cron' }, 0)
    }
    await setSchedule(stage, { cron: '* * * * *' }, 60_000)
    const upkeep = stage.upkeep()
    upkeep.start()

    await stage.clock.advance(30_000)
    const reported = stage.heard('schedule.broken').length
    await stage.clock.advance(89_000)
    await upkeep.stop()

    expect(reported).toBe(60)
    expect(await ticksOf(stage)).toEqual(['12:01'])
    expect(stage.heard('schedule.broken')).toHaveLength(120)
  })

  test('a schedule made in this process is seen immediately when upkeep is notified', async () => {
    const stage = openStage()
    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(1_000)

    await setSchedule(stage, { cron: '* * * * * *' }, 0)
    upkeep.nudgeSchedules()
    await stage.clock.advance(0)
    await upkeep.stop()

    expect(stage.heard('schedule.fired')).toHaveLength(1)
  })

  test('one queue’s many due schedules keep another’s tick waiting for one firing of each at most', async () => {
    const stage = openStage()
    for (let index = 0; index < 500; index++) {
      await setSchedule(stage, { name: `a:${index}`, queue: 'a', cron: '* * * * * *' }, 1_000)
    }
    await setSchedule(stage, { name: 'b', queue: 'b', cron: '* * * * * *' }, 2_000)

    await stage.clock.advance(2_000)
    await stage.upkeep().tick()

    const fired = stage.heard('schedule.fired').map(({ schedule }) => schedule)
    // Those of a have two ticks each by then.
    expect(fired.indexOf('b')).toBe(2)
    expect(new Set(fired).size).toBe(501)
  })

  test('a round that takes long ends, and the next asks anew who is due', async () => {
    const stage = openStage()
    for (let index = 0; index < 5; index++) {
      await setSchedule(stage, { name: `a:${index}`, queue: 'a', cron: '0 * * * *' }, 0)
    }
    await setSchedule(stage, { name: 'b', queue: 'b', cron: '* * * * * *' }, 1_000)
    stage.slow('fire', 600)

    const upkeep = stage.upkeep()
    upkeep.start()
    await stage.clock.advance(10_000)
    const stopped = upkeep.stop()
    await stage.clock.advance(10_000)
    await stopped

    const fired = stage.heard('schedule.fired').map(({ schedule }) => schedule)
    expect(fired.slice(0, 3)).toEqual(['a:0', 'a:1', 'b'])
    expect(new Set(fired).size).toBe(6)
  })

  test('ticks that are late are reported with their queue and by how much, once a minute for each queue', async () => {
    const stage = openStage()
    await setSchedule(stage, { name: 'a:1', queue: 'a', cron: '* * * * *' }, 60_000)
    await setSchedule(stage, { name: 'a:2', queue: 'a', cron: '* * * * *' }, 60_000)
    await setSchedule(stage, { name: 'b:1', queue: 'b', cron: '* * * * *' }, 60_000)
    const upkeep = stage.upkeep()

    await stage.clock.advance(60_000 + 15_000)
    await upkeep.tick()
    const inTime = stage.heard('schedule.late').length
    await stage.clock.advance(60_000)
    await upkeep.tick()
    const slow = stage.heard('schedule.late').length
    await stage.clock.advance(45_000 + 15_001)
    await upkeep.tick()

    expect([inTime, slow]).toEqual([0, 0])
    const reported = stage.heard('schedule.late').map(({ name: _, ...facts }) => facts)
    expect(reported.sort((one, other) => (one.queue < other.queue ? -1 : 1))).toEqual([
      { schedule: 'a:1', queue: 'a', lateMs: 15_001, count: 1 },
      { schedule: 'b:1', queue: 'b', lateMs: 15_001, count: 1 },
    ])
    await stage.clock.advance(60_000)
    await upkeep.tick()
    const again = stage.heard('schedule.late').filter(({ queue }) => queue === 'a')[1]
    expect(again).toMatchObject({ schedule: 'a:1', count: 2 })
  })

  test('a tick skipped because an earlier job is unfinished is reported without a job', async () => {
    const stage = openStage()
    await setSchedule(stage, { overlap: 'skip' })
    const upkeep = stage.upkeep()

    await stage.clock.advance(HOUR_MS)
    await upkeep.tick()
    await stage.clock.advance(HOUR_MS)
    await upkeep.tick()

    expect(await ticksOf(stage)).toEqual(['13:00'])
    expect(stage.heard('schedule.fired').map(({ jobId }) => jobId === null)).toEqual([false, true])
  })
})
