// SIGTERM: a deploy stops workers in the middle of their work.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Stage } from '../support/stage.js'

describe('SIGTERM with 200 jobs in flight', () => {
  let stage: Stage
  beforeEach(async () => {
    stage = await Stage.open()
  })
  afterEach(() => stage.close())

  test('finishes or releases every one: none lost, none settled twice, no attempt burnt', async () => {
    const leaving = await stage.startWorker({ worker: { concurrency: 200, prefetch: 50, drain: '1s' } })
    const jobs = await stage.holdfast.enqueueMany(
      Array.from({ length: 250 }, (_, n) => ['work', n % 2 === 0 ? { sleepMs: 400 } : { hang: true }] as const),
    )
    const ids = jobs.map(({ id }) => id)
    await leaving.next(() => leaving.messages.filter((message) => message.what === 'began').length >= 200)

    const ending = await leaving.kill('SIGTERM')
    const after = await Promise.all(ids.map((id) => stage.holdfast.get(id)))

    expect(ending).toEqual({ code: 0, signal: null })
    const finished = after.filter((job) => job?.state === 'succeeded')
    const released = after.filter((job) => job?.state === 'ready')
    expect(finished.length + released.length).toBe(250)
    expect(finished.length).toBeGreaterThanOrEqual(100)
    expect(released.length).toBeGreaterThanOrEqual(100)
    for (const job of finished) expect(job).toMatchObject({ attempt: 1, attempts: [] })
    for (const job of released) expect(job).toMatchObject({ attempt: 0, crashes: 0, attempts: [] })
    const settled = leaving.events('job.settled').map(({ id }) => id)
    expect(new Set(settled).size).toBe(settled.length)
    expect(leaving.events('worker.stopped')).toHaveLength(1)
  }, 60_000)
})
