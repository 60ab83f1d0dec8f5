// Handlers that stop what runs them: refused, so that a job can't take worker after worker with it.

import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { openHoldfast } from '../../src/holdfast.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { gate, openStage, work } from './stage.js'

describe('a handler that stops its own worker', () => {
  test('is refused, the run counts, and its neighbour and the worker go on', async () => {
    const stage = openStage()
    const end = gate()
    const id = await stage.enqueue()
    const neighbour = await stage.enqueue({ type: 'neighbour' })
    const worker = stage.worker({
      handlers: [work(() => worker.stop()), defineJob('neighbour').handle(() => end.promise)],
    })
    await worker.start()
    await stage.clock.advance(10)

    const refused = await stage.get(id)
    const isRunning = worker.isRunning
    end.open()
    await stage.clock.advance(10)
    await worker.stop()

    expect(isRunning).toBe(true)
    expect(refused).toMatchObject({ state: 'retrying', attempt: 1 })
    expect(refused.attempts[0]!.error!.message).toContain(
      `stop() was called by the handler of job ${id} ("work"), which it would wait for`,
    )
    expect(await stage.get(neighbour)).toMatchObject({ state: 'succeeded' })
  })

  test('may do so once it has ended: its timers and callbacks are no longer waited for', async () => {
    const stage = openStage()
    await stage.enqueue()
    let stopping: Promise<void> | null = null
    const worker = stage.worker({
      handlers: [
        work(() => {
          stage.clock.timers.after(1_000, () => {
            stopping = worker.stop()
          })
        }),
      ],
    })
    await worker.start()
    await stage.clock.advance(10)
    await stage.clock.advance(1_000)

    await stopping!

    expect(worker.isStopped).toBe(true)
  })

  test('may stop another worker', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const other = stage.worker({ handlers: [defineJob('other').handle(() => {})] })
    await other.start()
    const worker = stage.worker({ handlers: [work(() => other.stop())] })
    await worker.start()
    await stage.clock.advance(10)
    await worker.stop()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded' })
    expect(other.isStopped).toBe(true)
  })
})

describe('a handler that closes its own Holdfast', () => {
  test('is refused, the run counts, and the Holdfast stays open', async () => {
    const holdfast = await openHoldfast(memoryStore())
    const closes = defineJob('closes', { maxAttempts: 1 })
    await holdfast.worker({ handlers: [closes.handle(() => holdfast.close())] }).start()

    const { id } = await holdfast.enqueue(closes, {})
    const ended = await holdfast.wait(id, { timeout: '10s' }).catch((error: Error) => error)
    const next = await holdfast.enqueue(closes, {})
    await holdfast.close()

    expect(ended).toMatchObject({ code: 'job_dead' })
    expect((ended as Error).message).toContain(`close() was called by the handler of job ${id} ("closes")`)
    expect(next.created).toBe(true)
  })
})
