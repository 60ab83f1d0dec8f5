// Schedules: set, changed, paused, resumed, removed, shown.

import type { Facts } from './context.js'
import { MINUTE_MS, newSchedule, OPERATOR, START_MS } from './samples.js'

const LATER_MS = START_MS + MINUTE_MS

const setting: Facts = {
  'a new schedule is due at the time it was given, and is not paused': async ({ store, expect }) => {
    const schedule = newSchedule()

    const view = await store.setSchedule(schedule, LATER_MS, OPERATOR)

    expect(view).toEqual({
      ...schedule,
      paused: false,
      nextAt: new Date(LATER_MS),
      lastAt: null,
      lastJobId: null,
    })
  },

  'a schedule is shown as it was set': async ({ store, expect }) => {
    const schedule = newSchedule({
      payload: '{"report":"costs"}',
      version: 2,
      priority: -3,
      limits: { maxAttempts: 2, maxAgeMs: null },
      tags: ['reports'],
      catchUp: 'all',
      catchUpMax: 5,
      overlap: 'skip',
    })

    await store.setSchedule(schedule, LATER_MS, OPERATOR)

    expect((await store.schedules())[0]).toMatchObject(schedule)
  },

  'setting a schedule again replaces it': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)
    const changed = newSchedule({ payload: '2', priority: 7, queue: 'reports' })

    const view = await store.setSchedule(changed, LATER_MS, OPERATOR)

    expect(view).toMatchObject(changed)
    expect(await store.schedules()).toHaveLength(1)
  },

  'a schedule whose times stay the same keeps its next time': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)

    const view = await store.setSchedule(newSchedule({ payload: '2' }), START_MS, OPERATOR)

    expect(view.nextAt).toEqual(new Date(LATER_MS))
  },

  'a schedule with another expression gets a new next time': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)

    const view = await store.setSchedule(newSchedule({ cron: '5 * * * *' }), START_MS, OPERATOR)

    expect(view.nextAt).toEqual(new Date(START_MS))
  },

  'a schedule in another zone gets a new next time': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)

    const view = await store.setSchedule(newSchedule({ zone: 'Asia/Tokyo' }), START_MS, OPERATOR)

    expect(view.nextAt).toEqual(new Date(START_MS))
  },

  'a paused schedule that is set again stays paused': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)
    await store.pauseSchedule('nightly', OPERATOR)

    const view = await store.setSchedule(newSchedule({ cron: '5 * * * *' }), START_MS, OPERATOR)

    expect(view.paused).toBe(true)
  },

  'a maker who has made as many schedules as they may makes no more, and changes those there are': async ({
    store,
    expect,
  }) => {
    const set = (name: string, maker: string | null, queue = 'a') =>
      store.setSchedule(
        newSchedule({ name, queue }),
        LATER_MS,
        OPERATOR,
        maker === null ? undefined : { maker, most: 2 },
      )
    await set('free', null)
    await set('a', 'key 1')
    await set('b', 'key 1')

    const refused: unknown = await set('c', 'key 1').catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'too_many_schedules', details: { schedule: 'c', max: 2 } })
    await set('b', 'key 1', 'b')
    await set('free', 'key 1', 'b')
    await set('c', 'key 2')
    await store.removeSchedule('a', OPERATOR)
    await set('d', 'key 1')

    expect((await store.schedules()).map(({ name, queue }) => `${name} ${queue}`)).toEqual([
      'b b',
      'c a',
      'd a',
      'free b',
    ])
  },

  'schedules are listed by name': async ({ store, expect }) => {
    for (const name of ['b', 'Z', 'a', 'B:1']) await store.setSchedule(newSchedule({ name }), LATER_MS, OPERATOR)

    expect((await store.schedules()).map(({ name }) => name)).toEqual(['B:1', 'Z', 'a', 'b'])
  },

  'there are no schedules at first': async ({ store, expect }) => {
    expect(await store.schedules()).toEqual([])
  },
}

const pausing: Facts = {
  'a paused schedule is shown as paused': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)

    const isThere = await store.pauseSchedule('nightly', OPERATOR)

    expect(isThere).toBe(true)
    expect((await store.schedules())[0]).toMatchObject({ paused: true, nextAt: new Date(LATER_MS) })
  },

  'a paused schedule can be paused again': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)
    await store.pauseSchedule('nightly', OPERATOR)

    expect(await store.pauseSchedule('nightly', OPERATOR)).toBe(true)
  },

  'a resumed schedule goes on at the time it was given': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    await store.pauseSchedule('nightly', OPERATOR)

    const isThere = await store.resumeSchedule('nightly', LATER_MS, OPERATOR)

    expect(isThere).toBe(true)
    expect((await store.schedules())[0]).toMatchObject({ paused: false, nextAt: new Date(LATER_MS) })
  },

  'a schedule that does not exist can be neither paused nor resumed nor removed': async ({ store, expect }) => {
    const answers = [
      await store.pauseSchedule('nightly', OPERATOR),
      await store.resumeSchedule('nightly', LATER_MS, OPERATOR),
      await store.removeSchedule('nightly', OPERATOR),
    ]

    expect(answers).toEqual([false, false, false])
    expect(await store.schedules()).toEqual([])
  },

  'a removed schedule is gone': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)

    const wasThere = await store.removeSchedule('nightly', OPERATOR)

    expect(wasThere).toBe(true)
    expect(await store.schedules()).toEqual([])
  },

  'removing one schedule leaves the others': async ({ store, expect }) => {
    await store.setSchedule(newSchedule({ name: 'hourly' }), LATER_MS, OPERATOR)
    await store.setSchedule(newSchedule({ name: 'nightly' }), LATER_MS, OPERATOR)

    await store.removeSchedule('nightly', OPERATOR)

    expect((await store.schedules()).map(({ name }) => name)).toEqual(['hourly'])
  },
}

const due: Facts = {
  'a schedule is due when its next time has come': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)

    const { schedules } = await store.due(10)

    expect(schedules.map(({ name, nextAtMs }) => [name, nextAtMs])).toEqual([['nightly', START_MS]])
  },

  'a due schedule comes with everything it was set with': async ({ store, expect }) => {
    const view = await store.setSchedule(newSchedule({ tags: ['reports'] }), START_MS, OPERATOR)

    const { schedules } = await store.due(10)

    expect(schedules).toEqual([{ ...view, nextAtMs: START_MS }])
  },

  'a schedule is not due a millisecond too early': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), START_MS + 1, OPERATOR)

    expect((await store.due(10)).schedules).toEqual([])
  },

  'a paused schedule is not due': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    await store.pauseSchedule('nightly', OPERATOR)

    expect(await store.due(10)).toEqual({ schedules: [], nowMs: START_MS, nextDueMs: null })
  },

  'schedules are due in the order of their times, then of their names': async ({ store, expect }) => {
    await store.setSchedule(newSchedule({ name: 'c' }), START_MS - 2, OPERATOR)
    await store.setSchedule(newSchedule({ name: 'b' }), START_MS - 1, OPERATOR)
    await store.setSchedule(newSchedule({ name: 'a' }), START_MS - 1, OPERATOR)

    const { schedules } = await store.due(10)

    expect(schedules.map(({ name }) => name)).toEqual(['c', 'a', 'b'])
  },

  'no more due schedules are listed than the limit, and the rest is due immediately': async ({ store, expect }) => {
    await store.setSchedule(newSchedule({ name: 'a' }), START_MS - 1, OPERATOR)
    await store.setSchedule(newSchedule({ name: 'b' }), START_MS - 2, OPERATOR)

    const { schedules, nextDueMs } = await store.due(1)

    expect(schedules.map(({ name }) => name)).toEqual(['b'])
    expect(nextDueMs).toBe(0)
  },

  'queues take turns: many due schedules of one keep no other waiting': async ({ store, expect }) => {
    for (const name of ['a1', 'a2', 'a3']) {
      await store.setSchedule(newSchedule({ name, queue: 'a' }), START_MS - 1_000, OPERATOR)
    }
    await store.setSchedule(newSchedule({ name: 'b2', queue: 'b' }), START_MS, OPERATOR)
    await store.setSchedule(newSchedule({ name: 'b1', queue: 'b' }), START_MS - 1, OPERATOR)

    const { schedules, nextDueMs } = await store.due(4)
    const next = await store.due(2, 'a')

    expect(schedules.map(({ name }) => name)).toEqual(['a1', 'b1', 'a2', 'b2'])
    expect(nextDueMs).toBe(0)
    expect(next.schedules.map(({ name }) => name)).toEqual(['b1', 'a1'])
  },

  'it is known how long until the next schedule is due': async ({ store, clock, expect }) => {
    await store.setSchedule(newSchedule({ name: 'a' }), START_MS, OPERATOR)
    await store.setSchedule(newSchedule({ name: 'b' }), LATER_MS, OPERATOR)
    await clock.advance(1_000)

    const { nowMs, nextDueMs } = await store.due(10)

    expect([nowMs, nextDueMs]).toEqual([START_MS + 1_000, MINUTE_MS - 1_000])
  },

  'a paused schedule does not count as the next': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), LATER_MS, OPERATOR)
    await store.pauseSchedule('nightly', OPERATOR)

    expect((await store.due(10)).nextDueMs).toBe(null)
  },
}

export const scheduleFacts: Facts = { ...setting, ...pausing, ...due }
