import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { testHoldfast } from '../../src/testing/index.js'
import { failure } from './support.js'

const MINUTE_MS = 60_000
const send = defineJob<null, number>('send', { retry: { backoff: 'fixed', base: '5m', jitter: false } })

describe('startBy', () => {
  test('a job that nobody has begun by then is dead: expired, and one that was begun in time runs', async () => {
    const { holdfast, clock, drain } = await testHoldfast()
    const startBy = new Date(clock.now() + MINUTE_MS)
    const inTime = await holdfast.enqueue(send, null, { startBy })
    await drain([send.handle(() => 1)])
    const late = await holdfast.enqueue(send, null, { startBy })
    await clock.advance(2 * MINUTE_MS)

    await drain([send.handle(() => 2)])

    expect(await inTime.wait()).toBe(1)
    expect(await holdfast.get(late.id)).toMatchObject({ state: 'dead', reason: 'expired', attempt: 0 })
    await holdfast.close()
  })

  test('does not count for retries', async () => {
    const { holdfast, clock, drain } = await testHoldfast()
    const { id } = await holdfast.enqueue(send, null, { startBy: new Date(clock.now() + MINUTE_MS) })
    const handler = send.handle((_, { attempt }) => {
      if (attempt === 1) throw new Error('once')
      return attempt
    })
    await drain([handler])
    await clock.advance(10 * MINUTE_MS)

    await drain([handler])

    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded', result: 2 })
    await holdfast.close()
  })

  test.each(['soon', 7, '2026-02-30T00:00:00Z'])('%j is refused', async (startBy) => {
    const { holdfast } = await testHoldfast()

    const error = await failure(holdfast.enqueue('send', null, { startBy: startBy as string }))

    expect(error.message).toMatch(/startBy must be a Date or an ISO date/)
    await holdfast.close()
  })
})
