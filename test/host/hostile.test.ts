// Handlers and modules that do what none should: the supervisor goes on, other jobs run, and nothing is left behind.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { childPids, HostStage, isAlive, nextEvent, until } from './stage.js'

let stage: HostStage
beforeEach(async () => {
  stage = await HostStage.open()
})
afterEach(() => stage.close())

const ONE = { processes: 1, concurrency: 4 }

describe('a hostile handler', () => {
  test('that closes the channel of its child, deaf to its end: the child is ended and the job runs again', async () => {
    const host = await stage.start({ types: ['work'], worker: ONE })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'disconnect', once: 1 })

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(host.events('child.ended')).toMatchObject([{ signal: 'SIGKILL', jobs: 1 }])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  })

  test.each([
    ['its child is killed', (_: number, child: number) => process.kill(child, 'SIGKILL')],
    ['the supervisor is killed', (host: number) => process.kill(host, 'SIGKILL')],
  ])('that starts processes: they are gone when %s', async (_, kill) => {
    const host = await stage.start({ types: ['work'], worker: { processes: 1 } })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'grandchild', once: 1 })
    const { child, pid } = await stage.line((line) => line.what === 'spawned' && line.id === id)
    expect(isAlive(child!)).toBe(true)

    kill(host.pid, pid)

    await until(() => !isAlive(child!))
  })

  test('that starts a process and runs out of time: the process is ended with it', async () => {
    await stage.start({ types: ['quick'], worker: { processes: 1 } })
    const { id } = await stage.holdfast.enqueue('quick', { hostile: 'grandchild', once: 1 })
    const { child } = await stage.line((line) => line.what === 'spawned' && line.id === id)

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(isAlive(child!)).toBe(false)
  }, 60_000)

  test('that sends messages of its own through the channel disturbs nothing', async () => {
    const host = await stage.start({ types: ['work'], worker: ONE })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'messages' })

    await stage.holdfast.wait(id, { timeout: '30s' })
    const { id: next } = await stage.holdfast.enqueue('work', {})
    await stage.holdfast.wait(next, { timeout: '30s' })

    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1 })
    expect(host.events('child.ended')).toEqual([])
  })

  test.each(['work', 'threaded'])(
    'that sends broken messages in the name of its child (%s) takes the child along, not the supervisor',
    async (type) => {
      const host = await stage.start({ types: [type], worker: ONE })
      const { id } = await stage.holdfast.enqueue(type, { hostile: 'forged messages', once: 1 })

      await stage.holdfast.wait(id, { timeout: '30s' })

      expect(host.events('child.ended')).toMatchObject([{ why: 'exit', jobs: 1, error: expect.any(String) }])
      expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
    },
  )

  test('that removes all listeners of its process: the jobs sent there next are given back and run in another', async () => {
    const host = await stage.start({ types: ['work'], worker: ONE })
    const deaf = await stage.holdfast.enqueue('work', { hostile: 'removes listeners' })
    await stage.holdfast.wait(deaf.id, { timeout: '30s' })

    const next = await stage.holdfast.enqueueMany('work', [{}, {}])
    await Promise.all(next.map(({ id }) => stage.holdfast.wait(id, { timeout: '40s' })))

    expect(host.events('child.ended')).toMatchObject([{ why: 'stuck', error: expect.stringContaining('listeners') }])
    for (const { id } of next) expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1, crashes: 0 })
  }, 60_000)

  test('that closes the port of its thread: the thread ends and the job runs again', async () => {
    const host = await stage.start({ types: ['unhurried'], worker: ONE })
    const { id } = await stage.holdfast.enqueue('unhurried', { hostile: 'closes port', once: 1 })

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(host.events('child.ended')).toMatchObject([{ isolate: 'thread', why: 'exit', jobs: 1 }])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  })

  test('whose code throws outside of every job ends its child; of the error a part is kept', async () => {
    const host = await stage.start({ types: ['work'], worker: ONE })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'throws elsewhere', deaf: true, once: 1 })

    await stage.holdfast.wait(id, { timeout: '30s' })

    const [ended] = host.events('child.ended')
    expect(ended).toMatchObject({ why: 'exit', code: 1, jobs: 1 })
    expect(ended!.error!.length).toBeLessThan(5_000)
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  })

  test('that returns or throws 50 MB: a marker and a part are kept, its child lives', async () => {
    const host = await stage.start({ types: ['work'], worker: ONE })
    const returned = await stage.holdfast.enqueue('work', { hostile: 'huge result' })
    const thrown = await stage.holdfast.enqueue('work', { hostile: 'huge error' }, { maxAttempts: 1 })

    const result = await stage.holdfast.wait(returned.id, { timeout: '30s' })
    await expect(stage.holdfast.wait(thrown.id, { timeout: '30s' })).rejects.toMatchObject({ code: 'job_dead' })

    expect(result).toMatchObject({ unserializable: true })
    expect((await stage.holdfast.get(thrown.id))!.error!.message.length).toBeLessThan(5_000)
    expect(host.events('child.ended')).toEqual([])
  })

  test('that writes a megabyte a second to its output runs on', async () => {
    const host = await stage.start({ types: ['work'], worker: ONE })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'output' })

    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(host.events('child.ended')).toEqual([])
  })

  test('that ignores signals and spins when its process exits: the worker stops, and nothing is left', async () => {
    const host = await stage.start({ types: ['work'], worker: { ...ONE, drain: '200ms' } })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'deaf to all', deaf: true })
    const { pid } = await stage.line((line) => line.what === 'began' && line.id === id)

    host.signal('SIGTERM')
    await host.next(({ what }) => what === 'closed')

    await until(() => !isAlive(pid))
    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
  })

  test('that left its child unable to exit: the child is ended when it is replaced', async () => {
    const host = await stage.start({ types: ['work'], worker: { ...ONE, childJobs: 1 } })
    const { id } = await stage.holdfast.enqueue('work', { hostile: 'deaf to all' })
    const { pid } = await stage.line((line) => line.what === 'began' && line.id === id)

    await nextEvent(host, 'child.ended', (event) => event.pid === pid)

    expect(host.events('child.ended')[0]).toMatchObject({ why: 'recycled', jobs: 0 })
    expect(isAlive(pid)).toBe(false)
  })

  test('that fills the memory beside twenty others: they run again, and none of them is dead', async () => {
    const host = await stage.start({ types: ['work'], worker: { processes: 1, concurrency: 21, childMemory: 96 } })
    const others = await stage.holdfast.enqueueMany(
      'work',
      Array.from({ length: 20 }, () => ({ deaf: true, once: 1 })),
    )
    await until(() => stage.lines('began').length === 20)
    const bomb = await stage.holdfast.enqueue('work', { leak: 'spinning buffers', once: 1 })

    await Promise.all([...others, bomb].map(({ id }) => stage.holdfast.wait(id, { timeout: '60s' })))

    expect(host.events('child.ended')).toMatchObject([{ why: 'memory', jobs: 21 }])
    for (const { id } of others) expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  }, 90_000)

  test('that computes without a timeout gets no more jobs; they run in the other child', async () => {
    await stage.start({ types: ['work'], worker: { concurrency: 16 } })
    const spinning = await stage.holdfast.enqueue('work', { spin: true })
    const { pid } = await stage.line((line) => line.what === 'began' && line.id === spinning.id)
    // Nothing tells when its silence has lasted long enough; it would give a sign of life every second.
    await new Promise((resolve) => setTimeout(resolve, 2_000))

    const jobs = await stage.holdfast.enqueueMany(
      'work',
      Array.from({ length: 30 }, () => ({})),
    )
    await Promise.all(jobs.map(({ id }) => stage.holdfast.wait(id, { timeout: '30s' })))

    const pids = stage
      .lines('began')
      .filter(({ id }) => jobs.some((job) => job.id === id))
      .map((line) => line.pid)
    expect(pids).toHaveLength(30)
    expect(pids).not.toContain(pid)
  }, 60_000)
})

describe('a child', () => {
  test('that is stopped by a signal is ended after half a lease, and its jobs run again', async () => {
    const host = await stage.start({ types: ['work'], worker: { ...ONE, lease: '6s', heartbeat: '1s' } })
    const { id } = await stage.holdfast.enqueue('work', { deaf: true, once: 1 })
    const { pid } = await stage.line((line) => line.what === 'began' && line.id === id)

    process.kill(pid, 'SIGSTOP')
    await stage.holdfast.wait(id, { timeout: '40s' })

    expect(host.events('child.ended')).toMatchObject([{ pid, why: 'stuck', signal: 'SIGKILL', jobs: 1 }])
    expect(host.events('lease.lost')).toEqual([])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2 })
  }, 60_000)

  test.each(['spin', 'wait'])('whose module never finishes loading (%s): the worker can be stopped', async (how) => {
    const host = stage.launch({ types: ['work'], env: { HOLDFAST_TEST_HANG: how } })
    await until(() => stage.lines('loaded').length >= 3)
    const children = stage
      .lines('loaded')
      .map(({ pid }) => pid)
      .filter((pid) => pid !== host.pid)

    host.signal('SIGTERM')
    await host.next(({ what }) => what === 'closed')

    await until(() => !children.some(isAlive))
    expect(host.messages.some(({ what }) => what === 'failed')).toBe(false)
  })

  test('that is being started again when its worker stops: nothing is left', async () => {
    const flag = `${stage.log}.broken`
    const host = await stage.start({ types: ['work'], worker: ONE, env: { HOLDFAST_TEST_BROKEN: flag } })
    const [first] = childPids(host)
    stage.touch(flag)
    process.kill(first!, 'SIGKILL')
    await until(() => host.events('child.ended').filter(({ why }) => why === 'load').length >= 1)
    stage.remove(flag)

    host.signal('SIGTERM')
    await host.next(({ what }) => what === 'closed')

    const pids = new Set(
      stage
        .lines('loaded')
        .map(({ pid }) => pid)
        .filter((pid) => pid !== host.pid),
    )
    await until(() => ![...pids].some(isAlive))
  })
})

describe('a supervisor', () => {
  test('whose event loop stands still longer than a lease keeps its jobs and its children', async () => {
    const host = await stage.start({ types: ['work'], worker: { ...ONE, lease: '2s', heartbeat: '500ms' } })
    const { id } = await stage.holdfast.enqueue('work', { sleepMs: 1_000 })
    await stage.line((line) => line.what === 'began' && line.id === id)

    host.signal('SIGUSR2')
    await stage.holdfast.wait(id, { timeout: '30s' })

    expect(host.events('child.ended')).toEqual([])
    expect(host.events('lease.lost')).toEqual([])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1, crashes: 0 })
  })
})
