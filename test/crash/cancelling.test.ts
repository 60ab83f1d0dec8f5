// Cancelling a job that runs in another process.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Stage } from '../support/stage.js'

describe('a running job that is cancelled from another process', () => {
  let stage: Stage
  beforeEach(async () => {
    stage = await Stage.open()
  })
  afterEach(() => stage.close())

  test('is notified within a second, and ends as cancelled', async () => {
    const worker = await stage.startWorker()
    const { id } = await stage.holdfast.enqueue('work', { untilAborted: true })
    await worker.next((message) => message.what === 'began')

    const askedAt = performance.now()
    await stage.holdfast.cancel(id)
    const aborted = await worker.next((message) => message.what === 'aborted')
    const tookMs = performance.now() - askedAt
    await worker.next((message) => message.event?.name === 'job.settled')

    expect(aborted.reason).toBe('job_cancelled')
    expect(tookMs).toBeLessThan(1_000)
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'cancelled', attempt: 1 })
  })

  test('is notified by polling when the notification is lost', async () => {
    const worker = await stage.startWorker()
    const { id } = await stage.holdfast.enqueue('work', { untilAborted: true })
    await worker.next((message) => message.what === 'began')
    const sql = await stage.sql()

    // What cancel() writes, without the notification it sends.
    await sql.query(`UPDATE ${stage.config.schema}.running SET cancel_requested = true WHERE id = $1`, [id])
    const aborted = await worker.next((message) => message.what === 'aborted')
    await worker.next((message) => message.event?.name === 'job.settled')

    expect(aborted.reason).toBe('job_cancelled')
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'cancelled' })
  })
})
