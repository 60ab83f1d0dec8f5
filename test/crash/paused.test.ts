// Workers that live but cannot act: stopped by a signal, or stuck in a handler that never yields.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Stage } from '../support/stage.js'

describe('a worker that is not dead', () => {
  let stage: Stage
  beforeEach(async () => {
    stage = await Stage.open()
  })
  afterEach(() => stage.close())

  test('stopped for longer than its lease, it loses the job, and its late settlement is refused', async () => {
    const worker = { lease: '1s', heartbeat: '300ms' }
    const sleeper = await stage.startWorker({ worker, definition: { retry: { backoff: 'fixed', base: '10ms' } } })
    const { id } = await stage.holdfast.enqueue('work', { sleepMs: 1_500 })
    await sleeper.next((message) => message.what === 'began')

    sleeper.signal('SIGSTOP')
    const other = await stage.startWorker({ worker })
    const result = await stage.holdfast.wait(id, { timeout: '30s' })
    sleeper.signal('SIGCONT')
    await sleeper.next((message) => message.event?.name === 'lease.lost')

    expect(result).toMatchObject({ pid: other.pid, attempt: 2 })
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 2, result: { pid: other.pid } })
    expect(sleeper.events('job.settled')).toEqual([])
  })

  test('stopped for less than its lease, it keeps the job', async () => {
    const worker = { lease: '5s', heartbeat: '1s' }
    const sleeper = await stage.startWorker({ worker })
    const { id } = await stage.holdfast.enqueue('work', { sleepMs: 300 })
    await sleeper.next((message) => message.what === 'began')
    const other = await stage.startWorker({ worker })

    sleeper.signal('SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    sleeper.signal('SIGCONT')
    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(other.messages.filter((message) => message.what === 'began')).toEqual([])
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 })
  })

  test('a handler that blocks the event loop for three leases runs once', async () => {
    const worker = { lease: '1s', heartbeat: '300ms' }
    const { id } = await stage.holdfast.enqueue('work', { blockMs: 3_500 })
    await stage.startWorker({ worker })
    await stage.startWorker({ worker })

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(stage.processes.lines().filter((line) => line.what === 'began')).toHaveLength(1)
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 1, attempts: [] })
  })
})
