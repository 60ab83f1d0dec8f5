// Handlers that leak, spin or exit: each harms its own child and nothing else.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { childPids, HostStage, nextEvent, until } from './stage.js'

let stage: HostStage
beforeEach(async () => {
  stage = await HostStage.open()
})
afterEach(() => stage.close())

describe('a handler in a child', () => {
  test('that calls process.exit is a crash of its child: the job runs again, the worker goes on', async () => {
    const host = await stage.start({ types: ['work'] })
    const { id } = await stage.holdfast.enqueue('work', { exit: 3, once: 1 })

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(host.events('child.ended')).toMatchObject([{ why: 'exit', code: 3, jobs: 1 }])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  })

  test('that spins past its timeout and its grace is ended with its child, and its neighbours there run again', async () => {
    const host = await stage.start({ types: ['work', 'quick'], worker: { processes: 1, concurrency: 2 } })
    const beside = await stage.holdfast.enqueue('work', { deaf: true, once: 1 })
    await stage.line(({ what, id }) => what === 'began' && id === beside.id)
    const spinning = await stage.holdfast.enqueue('quick', { spin: true, once: 1 })

    await stage.holdfast.wait(spinning.id, { timeout: '40s' })
    await stage.holdfast.wait(beside.id, { timeout: '40s' })

    expect(host.events('child.ended')).toMatchObject([{ why: 'stuck', signal: 'SIGKILL', jobs: 2 }])
    expect(await stage.holdfast.get(spinning.id)).toMatchObject({
      attempt: 2,
      crashes: 0,
      attempts: [{ error: { code: 'timed_out' } }],
    })
    // Nobody knows which of the two held the event loop, so the one that was not due yet counts as lost with its process.
    expect(await stage.holdfast.get(beside.id)).toMatchObject({ attempt: 2, crashes: 1 })
  }, 60_000)

  test('that ignores its signal is ended with its child; a neighbour is given back, because the event loop turned', async () => {
    const host = await stage.start({ types: ['work', 'quick'], worker: { processes: 1, concurrency: 2 } })
    const beside = await stage.holdfast.enqueue('work', { sleepMs: 12_000 })
    await stage.line(({ what, id }) => what === 'began' && id === beside.id)
    const deaf = await stage.holdfast.enqueue('quick', { deaf: true, once: 1 })

    await stage.holdfast.wait(deaf.id, { timeout: '40s' })
    await until(() => stage.lines('began').filter(({ id }) => id === beside.id).length === 2)

    expect(host.events('child.ended')).toMatchObject([{ why: 'stuck', jobs: 2 }])
    expect(await stage.holdfast.get(deaf.id)).toMatchObject({
      attempt: 2,
      attempts: [{ error: { code: 'timed_out' } }],
    })
    expect(await stage.holdfast.get(beside.id)).toMatchObject({
      state: 'running',
      attempt: 1,
      crashes: 0,
      attempts: [],
    })
    // Never two of one job: the first run was over before the second began.
    const [first, second] = stage.lines('began').filter(({ id }) => id === deaf.id)
    expect(second!.pid).not.toBe(first!.pid)
  }, 60_000)

  test('that fills its heap is ended by its limit', async () => {
    const host = await stage.start({ types: ['work'], worker: { childMemory: 64 } })
    const { id } = await stage.holdfast.enqueue('work', { leak: 'heap', once: 1 })

    await stage.holdfast.wait(id, { timeout: '60s' })

    expect(host.events('child.ended')[0]).toMatchObject({ why: 'memory', jobs: 1 })
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  }, 90_000)

  test.each(['buffers', 'spinning buffers'])(
    'that keeps memory outside of its heap is ended as well: %s',
    async (leak) => {
      const host = await stage.start({ types: ['work'], worker: { childMemory: 96 } })
      const { id } = await stage.holdfast.enqueue('work', { leak, once: 1 })

      await stage.holdfast.wait(id, { timeout: '60s' })

      expect(host.events('child.ended')[0]).toMatchObject({ why: 'memory', jobs: 1 })
      expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
    },
    90_000,
  )

  test('whose error nobody caught fails its own attempt, and its child lives', async () => {
    const host = await stage.start({ types: ['work'] })
    const { id } = await stage.holdfast.enqueue('work', { uncaught: true, once: 1, deaf: true })

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(await stage.holdfast.get(id)).toMatchObject({
      attempt: 2,
      crashes: 0,
      attempts: [{ error: { message: 'nobody caught this' } }],
    })
    expect(host.events('child.ended')).toEqual([])
  })
})

describe('a child', () => {
  test('is replaced after the given number of jobs: the next one is ready before it goes, and no job is disturbed', async () => {
    const host = await stage.start({ types: ['work'], worker: { processes: 1, childJobs: 10, concurrency: 4 } })
    const jobs = await stage.holdfast.enqueueMany(
      'work',
      Array.from({ length: 60 }, () => ({ sleepMs: 30 })),
    )

    await Promise.all(jobs.map(({ id }) => stage.holdfast.wait(id, { timeout: '60s' })))
    await nextEvent(host, 'child.ended', ({ why }) => why === 'recycled')

    const order = host.messages.flatMap(({ event }) => (event?.name.startsWith('child.') ? [event.name] : []))
    expect(order.slice(0, 3)).toEqual(['child.started', 'child.started', 'child.ended'])
    expect(host.events('child.ended').every(({ why, jobs: left }) => why === 'recycled' && left === 0)).toBe(true)
    expect(stage.lines('began').every(({ attempt }) => attempt === 1)).toBe(true)
  }, 60_000)

  test('that finishes a long job while its replacement is killed is still ended after that job', async () => {
    const host = await stage.start({ types: ['work'], worker: { processes: 1, childJobs: 2, concurrency: 4 } })
    const end = `${stage.log}.end`
    const long = await stage.holdfast.enqueue('work', { untilFile: end })
    const { pid: first } = await stage.line(({ what, id }) => what === 'began' && id === long.id)
    await stage.holdfast.enqueueMany('work', [{}, {}])
    const replacement = await until(() => childPids(host).find((pid) => pid !== first))

    process.kill(replacement, 'SIGKILL')
    await until(() => childPids(host).some((pid) => pid !== first && pid !== replacement))
    stage.touch(end)
    await stage.holdfast.wait(long.id, { timeout: '30s' })

    expect(await nextEvent(host, 'child.ended', ({ pid }) => pid === first)).toMatchObject({ why: 'recycled', jobs: 0 })
  }, 60_000)

  test('that cannot load its module: the worker does not start, and says why', async () => {
    const host = stage.launch({ types: ['work'], module: new URL('../fixtures/broken-jobs.mjs', import.meta.url).href })

    const { reason, text } = (await host.next(({ what }) => what === 'failed')) as { reason?: string; text?: string }

    expect(reason).toBe('module_failed')
    expect(text).toContain('the module is broken')
  })

  test('that cannot be replaced is tried again with growing pauses, and its jobs go back', async () => {
    const flag = `${stage.log}.broken`
    const host = await stage.start({ types: ['work'], worker: { processes: 1 }, env: { HOLDFAST_TEST_BROKEN: flag } })
    const [first] = childPids(host)
    stage.touch(flag)

    process.kill(first!, 'SIGKILL')
    await until(() => host.events('child.ended').filter(({ why }) => why === 'load').length >= 4)
    const { id } = await stage.holdfast.enqueue('work', {})
    await nextEvent(host, 'job.started', (event) => event.id === id)
    const loadedMs = stage
      .lines('loaded')
      .filter(({ pid }) => pid !== host.pid && pid !== first)
      .map(({ atMs }) => atMs)
    stage.remove(flag)
    await stage.holdfast.wait(id, { timeout: '40s' })

    expect(host.events('child.ended').at(-1)).toMatchObject({ why: 'load', error: expect.stringContaining('broken') })
    // The least that each pause may be: half of 400, of 800 and of 1,600 ms.
    expect(loadedMs[1]! - loadedMs[0]!).toBeGreaterThanOrEqual(200)
    expect(loadedMs[2]! - loadedMs[1]!).toBeGreaterThanOrEqual(400)
    expect(loadedMs[3]! - loadedMs[2]!).toBeGreaterThanOrEqual(800)
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1, crashes: 0 })
  }, 60_000)

  test('ends with its worker, after its jobs', async () => {
    const host = await stage.start({ types: ['work'] })
    const { id } = await stage.holdfast.enqueue('work', { sleepMs: 800 })
    await stage.line((line) => line.what === 'began' && line.id === id)

    host.signal('SIGTERM')
    await host.next(({ what }) => what === 'closed')

    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 })
    expect(host.events('child.ended')).toMatchObject([
      { why: 'stopped', jobs: 0 },
      { why: 'stopped', jobs: 0 },
    ])
  })

  test('ignores the signals of its group: only the supervisor drains', async () => {
    const host = await stage.start({ types: ['work'] })
    await until(() => childPids(host).length === 2)
    const { id } = await stage.holdfast.enqueue('work', { sleepMs: 500 })
    const { pid } = await stage.line((line) => line.what === 'began' && line.id === id)

    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal)
    await stage.holdfast.wait(id, { timeout: '20s' })

    expect(host.events('child.ended')).toEqual([])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1, crashes: 0 })
  })

  test('that runs a handler which does not stop when the drain is over is ended, and the job goes back', async () => {
    const host = await stage.start({ types: ['work'], worker: { drain: '200ms' } })
    const { id } = await stage.holdfast.enqueue('work', { deaf: true })
    await stage.line((line) => line.what === 'began' && line.id === id)

    host.signal('SIGTERM')
    await host.next(({ what }) => what === 'closed')

    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'ready', attempt: 0, crashes: 0 })
  })
})
