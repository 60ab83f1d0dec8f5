// Wrong wall clocks in worker processes. Only the store's time counts, so nothing may change.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Stage } from '../support/stage.js'

const WRONG_CLOCK = new URL('../fixtures/wrong-clock.mjs', import.meta.url).href
const HOUR_MS = 3_600_000

describe.each([
  ['an hour ahead', HOUR_MS],
  ['an hour behind', -HOUR_MS],
])('a worker whose wall clock is %s', (_, shiftMs) => {
  let stage: Stage
  beforeEach(async () => {
    process.env.WRONG_CLOCK_MS = String(shiftMs)
    stage = await Stage.open()
  })
  afterEach(async () => {
    delete process.env.WRONG_CLOCK_MS
    await stage.close()
  })

  test('keeps its leases, runs timed jobs at their time, and loses none to a worker with a right clock', async () => {
    const worker = { lease: '1s', heartbeat: '300ms' }
    const wrong = await stage.startWorker({ worker }, ['--import', WRONG_CLOCK])
    const long = await stage.holdfast.enqueue('work', { sleepMs: 3_000 })
    await wrong.next((message) => message.id === long.id)
    const right = await stage.startWorker({ worker })
    const runAt = new Date((await stage.storeNow()) + 1_500)
    const timed = await stage.holdfast.enqueue('work', {}, { runAt })

    await stage.holdfast.wait(long.id, { timeout: '30s' })
    await stage.holdfast.wait(timed.id, { timeout: '30s' })

    expect(await stage.holdfast.get(long.id)).toMatchObject({ state: 'succeeded', attempt: 1, attempts: [] })
    const { startedAt, createdAt } = (await stage.holdfast.get(timed.id))!
    expect(startedAt!.getTime()).toBeGreaterThanOrEqual(runAt.getTime())
    expect(startedAt!.getTime() - runAt.getTime()).toBeLessThan(5_000)
    expect(Math.abs((await stage.storeNow()) - createdAt.getTime())).toBeLessThan(60_000)
    expect([...wrong.events('lease.lost'), ...right.events('lease.lost')]).toEqual([])
  }, 60_000)
})
