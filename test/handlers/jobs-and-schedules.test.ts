// Schedules and single jobs as users ask for them, on every store.

import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { failure, onStores } from './stores.js'

const work = defineJob<{ number: number }>('work', { queue: 'work' }).handle(async ({ number }) => number)

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  test('a succeeded job is run again as a new one', async () => {
    const { holdfast, working } = queue()
    await working([work], async () => {
      const first = await holdfast.enqueue(work.definition, { number: 7 })
      expect(await first.wait()).toBe(7)

      const again = await holdfast.runAgain(first.id, { by: 'ada' })

      expect(again.id).not.toBe(first.id)
      expect(await holdfast.wait(again.id)).toBe(7)
    })
  })

  test('a job is deleted with its payload, also by its tag', async () => {
    const { holdfast } = queue()
    const tags = ['customer:42']
    const [one, other] = [
      await holdfast.enqueue('later', { to: 'ada' }, { delay: '1h', tags }),
      await holdfast.enqueue('later', { to: 'ada' }, { delay: '1h', tags }),
    ]

    expect(await holdfast.delete(one.id)).toEqual({ id: one.id, result: 'deleted' })
    const { id } = await holdfast.bulk({ action: 'delete', filter: 'tag:customer:42' }, { by: 'ada' })
    await expect.poll(async () => (await holdfast.getBulk(id))?.state, { timeout: 10_000 }).toBe('done')

    expect([await holdfast.get(one.id), await holdfast.get(other.id)]).toEqual([null, null])
    expect(await holdfast.count({ filter: 'tag:customer:42' })).toEqual({ count: 0, isExact: true })
  })

  test('the newest job is run first', async () => {
    const { holdfast, working } = queue()
    const started: number[] = []
    const photo = defineJob<{ number: number }>('photo', { queue: 'photos', lifo: true })
    for (const number of [1, 2, 3]) await holdfast.enqueue(photo, { number })

    const handler = photo.handle(async ({ number }) => {
      started.push(number)
    })
    await working([handler], () => expect.poll(() => started.length, { timeout: 10_000 }).toBe(3))

    expect(started).toEqual([3, 2, 1])
  })

  test('ticks that were missed are previewed and made, each once, and listed', async () => {
    const { holdfast } = queue()
    await holdfast.schedule('daily', { cron: '0 0 * * *', job: 'report', queue: 'reports' })
    await holdfast.pauseSchedule('daily')
    const range = { from: '2026-01-01T00:00:00Z', to: '2026-01-03T00:00:00Z' }

    const preview = await holdfast.backfill('daily', { ...range, dryRun: true })
    expect([preview.made, preview.ticks.map(({ jobId }) => jobId)]).toEqual([0, [null, null, null]])
    expect((await holdfast.backfill('daily', { ...range, by: 'ada' })).made).toBe(3)
    expect((await holdfast.backfill('daily', range)).made).toBe(0)

    expect((await holdfast.stats('reports')).ready).toBe(3)
    expect(await holdfast.ticks('daily')).toEqual([])
  })

  test('a schedule fires until its end, and its ticks are listed', async () => {
    const { holdfast } = queue()
    const until = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 2_000)
    await holdfast.schedule('pulse', { every: '1s', until, job: 'beat', queue: 'beats' })

    const nextOf = async () => (await holdfast.schedules()).find(({ name }) => name === 'pulse')!.nextAt
    await expect.poll(nextOf, { timeout: 15_000 }).toBe(null)

    const ticks = await holdfast.ticks('pulse')
    expect(ticks.length).toBeGreaterThan(0)
    expect(ticks.every(({ tick, state }) => tick <= until && state === 'ready')).toBe(true)
  }, 20_000)

  test('a queue is removed when it has no job left that is unfinished', async () => {
    const { holdfast } = queue()
    const { id } = await holdfast.enqueue('x', null, { queue: 'gone' })
    expect(await failure(holdfast.removeQueue('gone'))).toMatchObject({ code: 'queue_not_empty' })
    await holdfast.delete(id)

    await holdfast.removeQueue('gone', { by: 'ada' })

    expect((await holdfast.queues()).map(({ name }) => name)).not.toContain('gone')
  })

  test('a job that is not begun in time is dead: expired', async () => {
    const { holdfast, working } = queue()
    const late = await holdfast.enqueue(work.definition, { number: 1 }, { startBy: new Date(Date.now() - 1_000) })

    await working([work], async () => {
      expect(await failure(holdfast.wait(late.id))).toMatchObject({ code: 'job_dead' })
    })

    expect(await holdfast.get(late.id)).toMatchObject({ state: 'dead', reason: 'expired' })
  })
})
