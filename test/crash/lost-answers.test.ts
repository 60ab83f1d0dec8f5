// Connections cut between a commit and its answer: the work is done and the caller cannot know. Repeating must change nothing.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../src/index.js'
import { Stage } from '../support/stage.js'

describe('an answer that is lost after the commit', () => {
  let stage: Stage
  beforeEach(async () => {
    stage = await Stage.open()
  })
  afterEach(() => stage.close())

  test('of an enqueue leaves one job', async () => {
    const proxy = await stage.openProxy()
    const client = await connect(proxy.url, { schema: stage.config.schema, upkeep: false })
    const lost = proxy.loseAnswerTo(({ type, text }) => type === 'B' && text === 'enqueue_plain')

    const { id, created } = await client.enqueue('work', {})
    await lost

    expect(created).toBe(true)
    expect((await stage.holdfast.list({})).jobs.map((job) => job.id)).toEqual([id])
    await client.close()
  })

  test('of an enqueue with an idempotency key leaves one job, and says that it was created', async () => {
    const proxy = await stage.openProxy()
    const client = await connect(proxy.url, { schema: stage.config.schema, upkeep: false })
    const lost = proxy.loseAnswerTo(({ type, text }) => type === 'B' && text === 'enqueue_full')

    const { id, created } = await client.enqueue('work', {}, { idempotencyKey: 'once' })
    await lost

    expect(created).toBe(true)
    expect((await stage.holdfast.list({})).jobs.map((job) => job.id)).toEqual([id])
    await client.close()
  })

  test('of a settlement leaves the job settled once', async () => {
    const proxy = await stage.openProxy()
    const lost = proxy.loseAnswerTo(({ type, text }) => type === 'B' && text.startsWith('settle'))
    const worker = await stage.startWorker({ url: proxy.url })
    const { id } = await stage.holdfast.enqueue('work', {})
    await lost

    await worker.next((message) => message.event?.name === 'job.settled')

    expect(worker.events('job.settled')).toMatchObject([{ id, state: 'succeeded' }])
    expect(worker.events('lease.lost')).toEqual([])
    expect(stage.processes.lines().filter((line) => line.what === 'began')).toHaveLength(1)
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 })
  })

  test("of a schedule's tick leaves one job for the tick", async () => {
    const proxy = await stage.openProxy()
    await stage.holdfast.schedule('every-second', { cron: '* * * * * *', job: 'work', payload: {} })
    await stage.startWorker({ url: proxy.url, work: false })
    // Once it is connected: that takes a transaction too.
    await proxy.loseAnswerTo(({ type, text }) => type === 'Q' && text === 'COMMIT')
    const sql = await stage.sql()

    await expect
      .poll(async () => (await sql.query(`SELECT count(*)::int AS n FROM ${stage.config.schema}.ticks`)).rows[0].n, {
        timeout: 20_000,
      })
      .toBeGreaterThanOrEqual(4)
    await stage.processes.close()

    const ticks = await sql.query(`SELECT tick, job FROM ${stage.config.schema}.ticks ORDER BY tick`)
    const jobs = await stage.holdfast.list({ limit: 200 })
    expect(jobs.jobs.map((job) => job.schedule?.tick.getTime()).sort()).toEqual(
      ticks.rows.map(({ tick }) => tick.getTime()).sort(),
    )
    expect(secondsBetween(ticks.rows.map(({ tick }) => tick))).toEqual(ticks.rows.slice(1).map(() => 1))
  }, 40_000)
})

function secondsBetween(times: readonly Date[]): number[] {
  return times.slice(1).map((time, index) => (time.getTime() - times[index]!.getTime()) / 1_000)
}
