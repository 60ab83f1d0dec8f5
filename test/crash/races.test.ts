// Many processes concurrently try what must happen once.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { Stage } from '../support/stage.js'

describe('many processes', () => {
  let server: PostgresServer
  let stage: Stage
  beforeEach(async () => {
    server = await PostgresServer.open({ settings: { max_connections: '600', fsync: 'off' } })
    stage = await Stage.open(server.url)
  })
  afterEach(async () => {
    await stage.close()
    await server.close()
  })

  test('50 processes that fire one schedule for ten ticks make ten jobs', async () => {
    const processes = await Promise.all(Array.from({ length: 50 }, () => stage.startWorker({ work: false })))
    const sql = await stage.sql()
    const ticks = () => sql.query(`SELECT tick FROM ${stage.config.schema}.ticks ORDER BY tick`)

    await stage.holdfast.schedule('every-second', { cron: '* * * * * *', job: 'work', payload: {} })
    await expect.poll(async () => (await ticks()).rows.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(10)
    await stage.holdfast.pauseSchedule('every-second')

    const recorded = (await ticks()).rows.map(({ tick }) => tick.getTime() as number)
    const jobs = await stage.holdfast.list({ limit: 200 })
    expect(jobs.jobs.map((job) => job.schedule!.tick.getTime()).sort()).toEqual(recorded)
    expect(recorded.map((tick) => (tick - recorded[0]!) / 1_000)).toEqual(recorded.map((_, index) => index))
    const firers = processes.filter((process) => process.events('schedule.fired').length > 0)
    expect(firers.length).toBeGreaterThan(1)
  }, 180_000)

  test('64 callers with one idempotency key get one job and 64 equal ids', async () => {
    const answers = await Promise.all(
      Array.from({ length: 64 }, () => stage.holdfast.enqueue('work', {}, { idempotencyKey: 'welcome:42' })),
    )

    expect(new Set(answers.map(({ id }) => id)).size).toBe(1)
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
    expect((await stage.holdfast.list({})).jobs).toHaveLength(1)
  })
})
