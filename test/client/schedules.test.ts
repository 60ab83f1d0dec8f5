import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Client } from '../../src/client/client.js'
import { defineJob } from '../../src/client/define-job.js'
import { failure, openClient } from './support.js'

const report = defineJob('report', {
  input: z.object({ kind: z.enum(['day', 'week']) }),
  queue: 'reports',
  maxAttempts: 5,
  tags: ['r'],
})
const daily = { cron: '0 9 * * *', zone: 'Europe/Berlin', job: report, payload: { kind: 'day' } } as const

describe('every, nicknames, jitter and an end', () => {
  test('every ticks at the multiples of its span, whenever it was set', async () => {
    const { client, clock } = await openClient()
    await clock.advance(17_000)

    const schedule = await client.schedule('often', { every: '90s', job: 'tidy' })

    expect(schedule).toMatchObject({ cron: '@every 90s', nextAt: new Date('2026-01-15T12:01:30Z') })
    expect((await client.nextRuns('often', 2)).map((at) => at.toISOString().slice(11, 19))).toEqual([
      '12:01:30',
      '12:03:00',
    ])
  })

  test.each([
    ['@hourly', '0 * * * *'],
    ['@daily', '0 0 * * *'],
    ['@Weekly', '0 0 * * 0'],
    ['@monthly', '0 0 1 * *'],
    ['@yearly', '0 0 1 1 *'],
  ])('%s is kept as its fields', async (cron, fields) => {
    const { client } = await openClient()

    expect((await client.schedule('nick', { cron, job: 'tidy' })).cron).toBe(fields)
  })

  test('there is no tick after the end, and a later end lets it go on', async () => {
    const { client } = await openClient()
    await client.schedule('ends', { every: '1h', until: '2026-01-15T14:00:00Z', job: 'tidy' })
    const first = await client.nextRuns('ends', 5)

    const longer = await client.schedule('ends', { every: '1h', until: '2026-01-15T15:30:00Z', job: 'tidy' })

    expect(first.map((at) => at.getUTCHours())).toEqual([13, 14])
    expect((await client.nextRuns('ends', 5)).map((at) => at.getUTCHours())).toEqual([13, 14, 15])
    expect(longer.nextAt).toEqual(new Date('2026-01-15T13:00:00Z'))
  })
})

describe('backfill', () => {
  const range = { from: '2026-01-15T08:00:00Z', to: '2026-01-15T11:00:00Z' }

  test('says which ticks would get a job, makes those jobs, and makes none twice', async () => {
    const { client } = await openClient()
    await client.schedule('hourly', { cron: '@hourly', job: 'tidy', payload: { a: 1 }, queue: 'back' })

    const preview = await client.backfill('hourly', { ...range, dryRun: true })
    const before = await client.list({ queue: 'back' })
    const made = await client.backfill('hourly', { ...range, by: 'ada' })
    const again = await client.backfill('hourly', range)

    expect(preview.ticks.map(({ tick, jobId }) => [tick.getUTCHours(), jobId])).toEqual([
      [8, null],
      [9, null],
      [10, null],
      [11, null],
    ])
    expect(before.jobs).toEqual([])
    expect(made.made).toBe(4)
    expect(again).toMatchObject({ made: 0, ticks: made.ticks })
    const { jobs } = await client.list({ queue: 'back' })
    expect(jobs).toHaveLength(4)
    expect(jobs.map(({ tags }) => tags)).toContainEqual(['schedule:hourly', 'tick:2026-01-15T08:00:00.000Z'])
    const { entries } = await client.audit({ action: 'backfill' })
    expect(entries).toMatchObject([{ actor: 'api' }, { actor: 'ada', target: 'hourly', details: { made: 4 } }])
  })

  const cases: [name: string, options: object, message: RegExp][] = [
    ['from after to', { from: range.to, to: range.from }, /from must not be after to/],
    ['no from', { to: range.to }, /from must be a Date/],
    ['the future', { from: range.from, to: '2030-01-01T00:00:00Z' }, /to must not be in the future/],
    ['too many ticks', { from: '2020-01-01T00:00:00Z', to: range.to }, /has more than 1000 ticks/],
    ['an unknown option', { ...range, preview: true }, /no option "preview"/],
  ]
  test.each(cases)('refuses %s', async (_, options, message) => {
    const { client } = await openClient()
    await client.schedule('hourly', { cron: '@hourly', job: 'tidy' })

    const error = await failure(client.backfill('hourly', options as never))

    expect(error.code).toBe('invalid_option')
    expect(error.message).toMatch(message)
  })
})

describe('schedule', () => {
  test('creates one from its options and its definition', async () => {
    const { client } = await openClient()

    const schedule = await client.schedule('daily', { ...daily, priority: 3, overlap: 'skip', tags: ['s'] })

    expect(schedule).toMatchObject({
      name: 'daily',
      cron: '0 9 * * *',
      zone: 'Europe/Berlin',
      type: 'report',
      queue: 'reports',
      payload: { kind: 'day' },
      priority: 3,
      limits: { maxAttempts: 5 },
      tags: ['r', 's'],
      catchUp: 'latest',
      catchUpMax: 100,
      overlap: 'skip',
      paused: false,
      nextAt: new Date('2026-01-16T08:00:00Z'),
    })
    expect(await client.schedules()).toEqual([schedule])
  })

  test('takes a bare type, and UTC by default', async () => {
    const { client } = await openClient()

    const schedule = await client.schedule('hourly', { cron: '30 * * * *', job: 'tidy' })

    expect(schedule).toMatchObject({ type: 'tidy', queue: 'default', zone: 'UTC', payload: null })
    expect(schedule.nextAt).toEqual(new Date('2026-01-15T12:30:00Z'))
  })

  test('changes the one of that name; its next time moves only with its times', async () => {
    const { client, clock } = await openClient()
    const first = await client.schedule('daily', daily)
    await clock.advance(86_400_000)

    const same = await client.schedule('daily', { ...daily, payload: { kind: 'week' } })
    const moved = await client.schedule('daily', { ...daily, cron: '0 10 * * *' })

    expect(same).toMatchObject({ payload: { kind: 'week' }, nextAt: first.nextAt })
    expect(moved.nextAt).toEqual(new Date('2026-01-17T09:00:00Z'))
    expect(await client.schedules()).toHaveLength(1)
  })

  test('is removed by name', async () => {
    const { client } = await openClient()
    await client.schedule('daily', daily)

    await client.unschedule('daily', { by: 'ann' })

    expect(await client.schedules()).toEqual([])
  })

  test('a pause holds until it is resumed, from the next time on', async () => {
    const { client, clock, store } = await openClient()
    await client.schedule('daily', daily)

    await client.pauseSchedule('daily')
    await clock.advance(3 * 86_400_000)
    const whilePaused = await store.due(10)
    await client.resumeSchedule('daily')

    expect(whilePaused.schedules).toEqual([])
    expect(await client.schedules()).toMatchObject([{ paused: false, nextAt: new Date('2026-01-19T08:00:00Z') }])
  })

  test('resuming one that fires already leaves its time alone', async () => {
    const { client, clock } = await openClient()
    const { nextAt } = await client.schedule('daily', daily)
    await clock.advance(86_400_000)

    await client.resumeSchedule('daily')

    expect(await client.schedules()).toMatchObject([{ nextAt }])
  })

  test('run now enqueues a job with its settings, tagged, and leaves its time alone', async () => {
    const { client } = await openClient()
    const { nextAt } = await client.schedule('daily', { ...daily, priority: 2 })

    const { id, created, state } = await client.runSchedule('daily')

    expect([created, state]).toEqual([true, 'ready'])
    expect(await client.get(id)).toMatchObject({
      type: 'report',
      queue: 'reports',
      payload: { kind: 'day' },
      priority: 2,
      maxAttempts: 5,
      tags: ['r', 'schedule:daily'],
    })
    expect((await client.list({ tag: 'schedule:daily' })).jobs).toHaveLength(1)
    expect(await client.schedules()).toMatchObject([{ nextAt }])
  })
})

describe('nextRuns', () => {
  test('shows the next five times of a schedule', async () => {
    const { client } = await openClient()
    await client.schedule('daily', daily)

    const runs = await client.nextRuns('daily')

    expect(runs.map((run) => run.toISOString())).toEqual([
      '2026-01-16T08:00:00.000Z',
      '2026-01-17T08:00:00.000Z',
      '2026-01-18T08:00:00.000Z',
      '2026-01-19T08:00:00.000Z',
      '2026-01-20T08:00:00.000Z',
    ])
  })

  test('looks ahead with an expression alone, over a change to summer time', async () => {
    const { client, clock } = await openClient()
    clock.set(Date.UTC(2026, 2, 28, 3))

    const runs = await client.nextRuns({ cron: '30 2 * * *', zone: 'Europe/Berlin' }, 3)

    expect(runs.map((run) => run.toISOString())).toEqual([
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
      '2026-03-31T00:30:00.000Z',
    ])
  })
})

describe('a schedule is refused', () => {
  const cases: [name: string, act: (client: Client) => Promise<unknown>, code: string, message: RegExp][] = [
    ['with a hostile name', (c) => c.schedule('a b', daily), 'invalid_name', /^schedule must be/],
    [
      'with an unknown option',
      (c) => c.schedule('a', { ...daily, at: 1 } as never),
      'invalid_option',
      /no option "at"/,
    ],
    ['with four fields', (c) => c.schedule('a', { ...daily, cron: '0 9 * *' }), 'invalid_schedule', /five fields/],
    ['with minute 60', (c) => c.schedule('a', { ...daily, cron: '60 9 * * *' }), 'invalid_schedule', /cannot be read/],
    [
      'with no known nickname',
      (c) => c.schedule('a', { ...daily, cron: '@reboot' }),
      'invalid_schedule',
      /five fields/,
    ],
    [
      'without an expression',
      (c) => c.schedule('a', { job: 'x' } as never),
      'invalid_schedule',
      /cron or every, got neither/,
    ],
    ['with both', (c) => c.schedule('a', { ...daily, every: '1m' }), 'invalid_schedule', /cron or every, got both/],
    ['every half second', (c) => c.schedule('a', { every: 500, job: 'x' }), 'invalid_option', /every must be between/],
    [
      'with a jitter of days',
      (c) => c.schedule('a', { ...daily, jitter: '2d' }),
      'invalid_option',
      /jitter must be between/,
    ],
    ['until no time', (c) => c.schedule('a', { ...daily, until: 'soon' }), 'invalid_option', /until must be a Date/],
    [
      'until yesterday',
      (c) => c.schedule('a', { ...daily, until: '2026-01-14T00:00:00Z' }),
      'invalid_schedule',
      /its end is over/,
    ],
    [
      'with two ends',
      (c) => c.schedule('a', { ...daily, cron: '0 9 * * * until 2027-01-01T00:00:00Z', until: '2028-01-01T00:00:00Z' }),
      'invalid_schedule',
      /says jitter or until already/,
    ],
    ['on 30 February', (c) => c.schedule('a', { ...daily, cron: '0 0 30 2 *' }), 'invalid_schedule', /no time to come/],
    [
      'in no known zone',
      (c) => c.schedule('a', { ...daily, zone: 'Mars/Olympus' }),
      'invalid_schedule',
      /IANA time zone/,
    ],
    [
      'with a payload that does not fit',
      (c) => c.schedule('a', { ...daily, payload: { kind: 'year' as never } }),
      'invalid_payload',
      /kind: /,
    ],
    [
      'without the payload it needs',
      (c) => c.schedule('a', { cron: '0 9 * * *', job: report }),
      'invalid_payload',
      /rep/,
    ],
    ['without a job', (c) => c.schedule('a', { cron: '0 9 * * *' } as never), 'invalid_option', /defineJob/],
    [
      'with an unknown catch-up',
      (c) => c.schedule('a', { ...daily, catchUp: 'x' as never }),
      'invalid_option',
      /catchUp/,
    ],
    ['with too much catch-up', (c) => c.schedule('a', { ...daily, catchUpMax: 1_001 }), 'invalid_option', /1 to 1000/],
    [
      'with an unknown overlap',
      (c) => c.schedule('a', { ...daily, overlap: 'x' as never }),
      'invalid_option',
      /overlap/,
    ],
    [
      'with more tags than leave room for its own',
      (c) => c.schedule('a', { ...daily, tags: Array.from({ length: 15 }, (_, n) => `t${n}`) }),
      'invalid_option',
      /at most 15/,
    ],
    ['when removed but unknown', (c) => c.unschedule('a'), 'schedule_not_found', /there is no schedule "a"/],
    ['when paused but unknown', (c) => c.pauseSchedule('a'), 'schedule_not_found', /there is no schedule "a"/],
    ['when resumed but unknown', (c) => c.resumeSchedule('a'), 'schedule_not_found', /there is no schedule "a"/],
    ['when run but unknown', (c) => c.runSchedule('a'), 'schedule_not_found', /there is no schedule "a"/],
    ['when looked ahead but unknown', (c) => c.nextRuns('a'), 'schedule_not_found', /there is no schedule "a"/],
    ['when looked ahead for ever', (c) => c.nextRuns({ cron: '* * * * *' }, 1e6), 'invalid_option', /count must be/],
    ['when looked ahead to never', (c) => c.nextRuns({ cron: '0 0 31 4 *' }), 'invalid_schedule', /no time to come/],
  ]

  for (const [name, act, code, message] of cases) {
    test(name, async () => {
      const { client, store } = await openClient()

      const error = await failure(act(client))

      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
      expect(await store.schedules()).toEqual([])
    })
  }
})
