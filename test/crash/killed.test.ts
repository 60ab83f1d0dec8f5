// Worker processes that die by kill -9 at the worst moments.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Stage } from '../support/stage.js'

const LEASE = { lease: '1s', heartbeat: '300ms' } as const

describe('kill -9', () => {
  let stage: Stage
  beforeEach(async () => {
    stage = await Stage.open()
  })
  afterEach(() => stage.close())

  test('a job whose worker is killed in its handler runs again elsewhere, its attempt counted', async () => {
    const victim = await stage.startWorker({ worker: LEASE })
    const { id } = await stage.holdfast.enqueue('work', { hang: 1 })
    await victim.next((message) => message.what === 'began' && message.id === id)

    await victim.kill('SIGKILL')
    await stage.startWorker({ worker: LEASE })
    await stage.holdfast.wait(id, { timeout: '30s' })

    const job = await stage.holdfast.get(id)
    expect(job).toMatchObject({ state: 'succeeded', attempt: 2, crashes: 1 })
    expect(job?.attempts).toMatchObject([{ attempt: 1, error: { code: 'worker_lost' } }])
    expect(stage.processes.lines().filter((line) => line.what === 'began')).toHaveLength(2)
  })

  test('a job whose worker is killed between claim and start runs elsewhere', async () => {
    const proxy = await stage.openProxy()
    const { id } = await stage.holdfast.enqueue('work', {})
    // The claim commits, its answer never arrives: the store says leased, the worker knows of nothing.
    const claimed = proxy.loseAnswerTo(({ type, text }) => type === 'B' && text === 'claim')
    const victim = stage.processes.launch({ ...stage.config, url: proxy.url, worker: LEASE })
    await claimed

    await victim.kill('SIGKILL')
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'running', attempt: 1 })
    await stage.startWorker({ worker: LEASE })
    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(stage.processes.lines().filter((line) => line.what === 'began')).toMatchObject([{ id, attempt: 2 }])
  })

  test('a job whose worker is killed after its effect and before its settlement runs again', async () => {
    const victim = await stage.startWorker({ worker: LEASE })
    const { id } = await stage.holdfast.enqueue('work', { effect: true, hang: 1 })
    await victim.next((message) => message.what === 'effect' && message.id === id)

    await victim.kill('SIGKILL')
    await stage.startWorker({ worker: LEASE })
    await stage.holdfast.wait(id, { timeout: '30s' })

    // At least once: the effect happened twice, which is why handlers are idempotent or use complete(tx).
    expect(stage.processes.lines().filter((line) => line.what === 'effect')).toMatchObject([
      { id, attempt: 1 },
      { id, attempt: 2 },
    ])
  })

  test('a job that kills its worker every time is dead: crashed after exactly three runs, and its neighbours succeed', async () => {
    const worker = { ...LEASE, concurrency: 8 }
    const poison = await stage.holdfast.enqueue('work', { kill: true }, { retry: { backoff: 'fixed', base: '50ms' } })
    const neighbours = await stage.holdfast.enqueueMany(
      Array.from({ length: 30 }, () => ['work', { sleepMs: 20 }, { retry: { backoff: 'fixed', base: 50 } }] as const),
    )
    let isOver = false
    const respawning = (async () => {
      while (!isOver) {
        const started = await stage.startWorker({ worker }).catch(() => null)
        if (started?.isAlive && !isOver) {
          await new Promise((resolve) => started.child.once('exit', resolve))
        }
      }
    })()

    await expect(stage.holdfast.wait(poison.id, { timeout: '60s' })).rejects.toMatchObject({ code: 'job_dead' })
    const results = await Promise.all(neighbours.map(({ id }) => stage.holdfast.wait(id, { timeout: '60s' })))
    isOver = true
    const lines = stage.processes.lines()
    await stage.processes.close()
    await respawning

    const job = await stage.holdfast.get(poison.id)
    expect(job).toMatchObject({ state: 'dead', reason: 'crashed', crashes: 3 })
    expect(lines.filter((line) => line.what === 'began' && line.id === poison.id)).toHaveLength(3)
    expect(results).toHaveLength(30)
  }, 120_000)
})
