// What a handler has in a child: the same as in the worker's own process.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { WorkerProcess } from '../support/processes.js'
import { childPids, HostStage, until } from './stage.js'

describe.each([
  ['a process', 'work'],
  ['a thread', 'threaded'],
])('a handler in %s', (_, type) => {
  let stage: HostStage
  let host: WorkerProcess
  beforeAll(async () => {
    stage = await HostStage.open()
    host = await stage.start({ types: ['work', 'threaded'], worker: { drain: '300ms' } })
  })
  afterAll(() => stage.close())

  test('knows its job and does not run where the worker does', async () => {
    const { id } = await stage.holdfast.enqueue(type, { facts: true }, { tags: ['blue'], maxAttempts: 7 })

    const facts = (await stage.holdfast.wait(id, { timeout: '20s' })) as Record<string, unknown>

    expect(facts).toMatchObject({ id, type, queue: 'default', attempt: 1, maxAttempts: 7, tags: ['blue'] })
    expect(facts).toMatchObject({ isDate: true, isAborted: false, fence: expect.any(Number) })
    expect(facts.pid === host.pid).toBe(type === 'threaded')
  })

  test('is notified of a cancel within a second', async () => {
    const { id } = await stage.holdfast.enqueue(type, { untilAborted: true })
    await stage.line((line) => line.what === 'began' && line.id === id)

    await stage.holdfast.cancel(id)

    expect(await stage.line((line) => line.what === 'aborted' && line.id === id)).toMatchObject({
      code: 'job_cancelled',
    })
    await until(() => host.events('job.settled').some((event) => event.id === id && event.state === 'cancelled'))
  })

  test('is notified of its timeout', async () => {
    const { id } = await stage.holdfast.enqueue(type, { untilAborted: true }, { timeout: '300ms', maxAttempts: 1 })

    await expect(stage.holdfast.wait(id, { timeout: '20s' })).rejects.toMatchObject({ code: 'job_dead' })

    expect(stage.lines('aborted').filter((line) => line.id === id)).toMatchObject([{ code: 'timed_out' }])
    expect((await stage.holdfast.get(id))?.error).toMatchObject({ code: 'timed_out' })
  })

  test('keeps progress and log lines with its job', async () => {
    const { id } = await stage.holdfast.enqueue(type, { notes: true })

    await stage.holdfast.wait(id, { timeout: '20s' })

    expect(await stage.holdfast.get(id)).toMatchObject({
      progress: { done: true },
      logs: [{ text: 'first line' }, { text: 'second line' }],
    })
  })

  test('throws what means the same: DropJob, RetryJob, an error with its code, one that is not worth a retry', async () => {
    const ids: string[] = []
    for (const what of ['drop', 'retry', 'plain', 'final']) {
      ids.push((await stage.holdfast.enqueue(type, { throw: what }, { maxAttempts: what === 'plain' ? 1 : 5 })).id)
    }
    const isSettled = (id: string) => host.events('job.settled').some((event) => event.id === id)
    await until(() => ids.every(isSettled))

    const [dropped, retried, plain, final] = await Promise.all(ids.map((id) => stage.holdfast.get(id)))
    expect(dropped).toMatchObject({ state: 'dead', reason: 'dropped', error: { name: 'DropJob' } })
    expect(retried).toMatchObject({ state: 'retrying', attempt: 1, error: { name: 'RetryJob' } })
    expect(retried!.runAt!.getTime() - Date.now()).toBeGreaterThan(3_000_000)
    expect(plain).toMatchObject({ state: 'dead', reason: 'attempts' })
    expect(plain!.error).toMatchObject({ name: 'CardError', code: 'card_declined', message: 'declined' })
    expect(plain!.error!.stack).toContain('hosted-jobs.mjs')
    expect(final).toMatchObject({ state: 'dead', reason: 'dropped', attempt: 1, error: { message: 'stolen' } })
  })

  test('is told to wait without using up an attempt', async () => {
    const { id } = await stage.holdfast.enqueue(type, { rateLimited: '10m' })

    await until(() => host.events('job.settled').some((event) => event.id === id))

    expect(host.events('job.ended').find((event) => event.id === id)).toMatchObject({ outcome: 'rate_limited' })
    const job = await stage.holdfast.get(id)
    expect(job).toMatchObject({ state: 'scheduled', attempt: 0, attempts: [] })
    expect(job!.runAt!.getTime() - Date.now()).toBeGreaterThan(500_000)
  })

  test('snoozes without using up an attempt', async () => {
    const { id } = await stage.holdfast.enqueue(type, { snooze: '100ms' })

    await until(() => host.events('job.ended').some((event) => event.id === id && event.outcome === 'snoozed'))

    expect(await stage.holdfast.wait(id, { timeout: '20s' })).toMatchObject({ attempt: 1 })
  })

  // The last: its worker is gone afterwards.
  test('is notified of a shutdown, and its job goes back with its attempt', async () => {
    const { id } = await stage.holdfast.enqueue(type, { untilAborted: true })
    await stage.line((line) => line.what === 'began' && line.id === id)

    host.signal('SIGTERM')
    await stage.line((line) => line.what === 'aborted' && line.id === id)
    await host.next(({ what }) => what === 'closed')

    expect(await stage.holdfast.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
  }, 30_000)
})

describe('complete(tx) in a child', () => {
  let stage: HostStage
  beforeAll(async () => {
    stage = await HostStage.open()
    await (await stage.sql()).query(`CREATE TABLE ${stage.schema}_effects (job uuid, attempt int)`)
    await stage.start({ types: ['work'] })
  })
  afterAll(async () => {
    await (await stage.sql()).query(`DROP TABLE ${stage.schema}_effects`)
    await stage.close()
  })

  const effects = async (id: string) => {
    const { rows } = await (await stage.sql()).query(`SELECT attempt FROM ${stage.schema}_effects WHERE job = $1`, [id])
    return rows.map(({ attempt }) => attempt)
  }

  test('settles the job on the connection of the handler, notes included', async () => {
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'commit' })

    expect(await stage.holdfast.wait(id, { timeout: '20s' })).toEqual({ completed: true })

    expect(await effects(id)).toEqual([1])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 1, logs: [{ text: 'completing' }] })
  })

  test('that is rolled back is a failed attempt, and the job runs again', async () => {
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'roll back' })

    await stage.holdfast.wait(id, { timeout: '20s' })

    expect(await effects(id)).toEqual([2])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2 })
  })

  test('whose child dies before the commit has no effect, and the job runs again', async () => {
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'die before commit' })

    await stage.holdfast.wait(id, { timeout: '20s' })

    expect(await effects(id)).toEqual([2])
    expect(await stage.holdfast.get(id)).toMatchObject({ attempt: 2, crashes: 1 })
  })

  test('whose child dies after the commit has succeeded, and the job does not run again', async () => {
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'die after commit' })

    await stage.holdfast.wait(id, { timeout: '20s' })

    expect(await effects(id)).toEqual([1])
    expect(stage.lines('began').filter((line) => line.id === id)).toHaveLength(1)
  })

  test('outside of a transaction is refused', async () => {
    const { id } = await stage.holdfast.enqueue('work', { transaction: 'no transaction' }, { maxAttempts: 1 })

    await expect(stage.holdfast.wait(id, { timeout: '20s' })).rejects.toMatchObject({ code: 'job_dead' })

    expect((await stage.holdfast.get(id))?.error).toMatchObject({ name: 'HoldfastError', code: 'invalid_option' })
  })
})

describe('a payload', () => {
  let stage: HostStage
  beforeAll(async () => {
    stage = await HostStage.open()
    await stage.start({ types: ['work', 'checked', 'lifted'] })
  })
  afterAll(() => stage.close())

  test('that does not fit its schema is found out in the child: the job is dead, invalid', async () => {
    const { id } = await stage.holdfast.enqueue('checked', { to: 5 })

    await expect(stage.holdfast.wait(id, { timeout: '20s' })).rejects.toMatchObject({ code: 'job_dead' })

    expect(await stage.holdfast.get(id)).toMatchObject({ reason: 'invalid', error: { code: 'invalid_payload' } })
  })

  test('of an older version is lifted in the child', async () => {
    const { id } = await stage.holdfast.enqueue('lifted', { a: 1 })

    expect(await stage.holdfast.wait(id, { timeout: '20s' })).toEqual({ a: 1, lifted: true })
  })

  test('of a megabyte arrives whole, many of them too', async () => {
    const text = 'é\u0000"\\'.repeat(80_000)
    const jobs = await stage.holdfast.enqueueMany(
      'work',
      Array.from({ length: 12 }, () => ({ text })),
    )

    await Promise.all(jobs.map(({ id }) => stage.holdfast.wait(id, { timeout: '30s' })))

    const ids = new Set(jobs.map(({ id }) => id))
    expect(stage.lines('ended').filter((line) => ids.has(line.id!))).toHaveLength(12)
  }, 60_000)
})

describe('isolate on one definition', () => {
  let stage: HostStage
  beforeEach(async () => {
    stage = await HostStage.open()
  })
  afterEach(() => stage.close())

  test('runs that one in a process, that one in a thread, and the others in the worker', async () => {
    const host = await stage.start({ types: ['work', 'apart', 'threaded'], worker: { processes: undefined } })
    const ran: Record<string, { pid: number; threadId: number }> = {}
    for (const type of ['work', 'apart', 'threaded']) {
      const { id } = await stage.holdfast.enqueue(type, {})
      ran[type] = (await stage.holdfast.wait(id, { timeout: '20s' })) as { pid: number; threadId: number }
    }

    expect(ran.work).toMatchObject({ pid: host.pid, threadId: 0 })
    expect(childPids(host)).toContain(ran.apart!.pid)
    expect(ran.threaded!.pid).toBe(host.pid)
    expect(ran.threaded!.threadId).toBeGreaterThan(0)
  })

  test.each([
    ['exits', { exit: 2, once: 1 }],
    ['spins', { spin: true, once: 1 }],
    ['fills its heap', { leak: 'heap', once: 1 }],
  ])(
    'a thread whose handler %s is ended alone: the job runs again, the worker goes on',
    async (_, payload) => {
      const host = await stage.start({ types: ['work', 'threaded'], worker: { processes: undefined, childMemory: 64 } })
      const { id } = await stage.holdfast.enqueue('threaded', payload)

      await stage.holdfast.wait(id, { timeout: '40s' })

      expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 2 })
      expect(host.events('child.ended')[0]).toMatchObject({ isolate: 'thread', jobs: 1 })
      expect(host.isAlive).toBe(true)
    },
    60_000,
  )
})
