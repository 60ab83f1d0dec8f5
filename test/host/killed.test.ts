// Children and supervisors that die by kill -9. How soon is measured by npm run bench -- host.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { childPids, HostStage, isAlive, nextEvent, until } from './stage.js'

const SOON = { retry: { backoff: 'fixed', base: '50ms' } } as const

let stage: HostStage
beforeEach(async () => {
  stage = await HostStage.open()
})
afterEach(() => stage.close())

describe('kill -9 of a child', () => {
  test('its jobs run again long before their lease is over, none beside itself, each attempt counted', async () => {
    // With a lease of ten minutes nothing but the end of the child can be why they run again before the test is over.
    const worker = { concurrency: 40, prefetch: 0, lease: '10m', heartbeat: '1m' }
    const host = await stage.start({ types: ['work'], worker })
    await until(() => childPids(host).length === 2)
    const jobs = await stage.holdfast.enqueueMany(
      'work',
      Array.from({ length: 40 }, () => ({ sleepMs: 1_500 })),
    )
    await until(() => stage.lines('began').length === 40)
    const [victim] = childPids(host)
    const inHand = stage.lines('began').filter(({ pid }) => pid === victim)

    process.kill(victim!, 'SIGKILL')
    await Promise.all(jobs.map(({ id }) => stage.holdfast.wait(id, { timeout: '30s' })))

    const again = stage.lines('began').filter(({ attempt }) => attempt === 2)
    expect(inHand.length).toBeGreaterThan(0)
    expect(again.map(({ id }) => id).sort()).toEqual(inHand.map(({ id }) => id).sort())
    // None beside itself: whatever the dead child began never ended, and each of the others began once.
    expect(again.every(({ pid }) => pid !== victim)).toBe(true)
    expect(stage.lines('ended')).toHaveLength(40)
    expect(host.events('child.ended')).toMatchObject([
      { pid: victim, why: 'exit', signal: 'SIGKILL', jobs: inHand.length },
    ])
    for (const { id } of inHand) {
      expect(await stage.holdfast.get(id!)).toMatchObject({
        state: 'succeeded',
        attempt: 2,
        crashes: 1,
        attempts: [{ attempt: 1, error: { code: 'worker_lost' } }],
      })
    }
  })

  test('another child takes its place', async () => {
    const host = await stage.start({ types: ['work'] })
    await until(() => childPids(host).length === 2)
    const [victim] = childPids(host)

    process.kill(victim!, 'SIGKILL')
    await nextEvent(host, 'child.ended', ({ pid }) => pid === victim)

    await until(() => childPids(host).length === 2)
    expect(childPids(host)).not.toContain(victim)
  })

  test('a job that kills its child three times is dead: crashed, and none of its neighbours is', async () => {
    await stage.start({ types: ['work'], worker: { concurrency: 12 } })
    const neighbours = await stage.holdfast.enqueueMany(
      'work',
      // Enough, and long enough, that some run whenever the poison does.
      Array.from({ length: 100 }, () => ({ sleepMs: 500 })),
      SOON,
    )
    const poison = await stage.holdfast.enqueue('work', { kill: true }, { ...SOON, priority: 5 })

    await expect(stage.holdfast.wait(poison.id, { timeout: '60s' })).rejects.toMatchObject({ code: 'job_dead' })
    await Promise.all(neighbours.map(({ id }) => stage.holdfast.wait(id, { timeout: '60s' })))

    const runs = stage.lines('began').filter(({ id }) => id === poison.id)
    expect(await stage.holdfast.get(poison.id)).toMatchObject({ state: 'dead', reason: 'crashed', crashes: 3 })
    expect(runs.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
    // On its last chance it was alone: what its child ran before had ended.
    const last = runs.at(-1)!
    const others = (what: 'began' | 'ended') =>
      stage.lines(what).filter(({ pid, id }) => pid === last.pid && id !== poison.id)
    expect(others('ended').map(({ id }) => id)).toEqual(others('began').map(({ id }) => id))
  }, 120_000)

  test('a job that the child had not read is given back with its attempt', async () => {
    const host = await stage.start({ types: ['work'], worker: { processes: 1, concurrency: 4, prefetch: 0 } })
    const spinning = await stage.holdfast.enqueue('work', { spin: true, once: 1 })
    const { pid } = await stage.line(({ what, id }) => what === 'began' && id === spinning.id)
    const unread = await stage.holdfast.enqueue('work', {})
    await nextEvent(host, 'job.started', ({ id }) => id === unread.id)

    process.kill(pid, 'SIGKILL')
    await stage.holdfast.wait(unread.id, { timeout: '30s' })
    await stage.holdfast.wait(spinning.id, { timeout: '30s' })

    expect(await stage.holdfast.get(unread.id)).toMatchObject({ attempt: 1, crashes: 0, attempts: [] })
    expect(await stage.holdfast.get(spinning.id)).toMatchObject({ attempt: 2, crashes: 1 })
  })
})

describe('kill -9 of the supervisor', () => {
  test.each([
    ['that wait', {}],
    ['that compute without end', { spin: true, once: 1 }],
  ])(
    'children %s are gone too, and their jobs are rescued',
    async (_, payload) => {
      const worker = { lease: '1500ms', heartbeat: '400ms' }
      const host = await stage.start({ types: ['work'], worker })
      await until(() => childPids(host).length === 2)
      const { id } = await stage.holdfast.enqueue('work', { ...payload, deaf: true, once: 1 })
      await stage.line((line) => line.what === 'began' && line.id === id)
      const children = childPids(host)

      await host.kill('SIGKILL')
      await until(() => !children.some(isAlive))
      await stage.start({ types: ['work'], worker })
      await stage.holdfast.wait(id, { timeout: '30s' })

      expect(await stage.holdfast.get(id)).toMatchObject({ state: 'succeeded', attempt: 2, crashes: 1 })
    },
    60_000,
  )

  test('children of one that stands still end before its leases run out', async () => {
    const host = await stage.start({ types: ['work'], worker: { lease: '2s', heartbeat: '600ms' } })
    await until(() => childPids(host).length === 2)
    const children = childPids(host)

    host.signal('SIGSTOP')

    await until(() => !children.some(isAlive), 2_000)
    host.signal('SIGCONT')
    await until(() => childPids(host).length === 2)
  })
})
