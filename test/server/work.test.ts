// Workers over HTTP: the same fences, bounds and decisions as a worker here, and keys that see nothing else.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TestServer } from './support.js'

let server: TestServer
let key: string

beforeEach(async () => {
  server = await TestServer.open({}, undefined, { upkeep: true })
  key = await server.key(['work'], ['mail'])
})

afterEach(() => server.close())

async function post(path: string, body: unknown, as = key) {
  return server.as(as, 'POST', `/v1/work/${path}`, { body })
}

async function claim(body: object = {}) {
  const { json } = await post('claim', { worker: 'w1', queues: ['mail'], wait: 0, ...body })
  return json.jobs
}

async function settle(lease: string, outcome: string, more: object = {}) {
  return (await post('settle', { jobs: [{ lease, outcome, ...more }] })).json.jobs[0]
}

async function enqueue(payload: unknown = null, options: object = {}): Promise<string> {
  return (await server.holdfast.enqueue('send', payload, { queue: 'mail', ...options })).id
}

const error = { name: 'SMTPError', message: 'no such host', stack: 'at line 3' }

describe('a worker over HTTP', () => {
  test('claims a job with its payload, and settles it with its result', async () => {
    const id = await enqueue({ to: 'ada', password: 'unmasked' }, { tags: ['eu'], maxAttempts: 3, timeout: '5s' })

    const [job] = await claim()
    const settled = await settle(job.lease, 'succeeded', { result: { sent: true } })

    expect(job).toMatchObject({
      ...{ id, type: 'send', queue: 'mail', payload: { to: 'ada', password: 'unmasked' }, attempt: 1, maxAttempts: 3 },
      ...{ timeoutMs: 5_000, tags: ['eu'], group: null, version: 1, priority: 0 },
    })
    expect(settled).toEqual({ id, result: 'settled', state: 'succeeded' })
    expect(await server.holdfast.get(id)).toMatchObject({ result: { sent: true }, worker: 'http:work:w1' })
  })

  test('a settlement that is repeated is answered with what became of the job, and changes nothing, whatever it says', async () => {
    const id = await enqueue()
    const [job] = await claim()

    const first = await settle(job.lease, 'succeeded', { result: 1 })
    const again = await settle(job.lease, 'succeeded', { result: 1 })
    const other = await settle(job.lease, 'failed', { error })

    expect([first, again, other].map(({ state }) => state)).toEqual(['succeeded', 'succeeded', 'succeeded'])
    expect((await server.holdfast.get(id))?.state).toBe('succeeded')
  })

  test('a lease that ran out and was claimed elsewhere can neither settle nor be kept', async () => {
    const id = await enqueue()
    const [old] = await claim({ lease: '1s' })
    await expect.poll(async () => (await server.holdfast.get(id))?.state, { timeout: 15_000 }).toBe('ready')
    const [fresh] = await claim()

    const { json } = await post('extend', { leases: [old.lease, fresh.lease] })
    const late = await settle(old.lease, 'succeeded')

    expect(json.leases.map(({ state }: { state: string }) => state)).toEqual(['lost', 'held'])
    expect(late.result).toBe('lost')
    expect(fresh.fence).toBeGreaterThan(old.fence)
    expect(fresh.attempt).toBe(2)
    expect((await server.holdfast.get(id))?.state).toBe('running')
  }, 20_000)

  test('what becomes of a failed job is decided here: retried by its policy, or by the worker’s delay, or dead', async () => {
    const retry = { backoff: 'fixed', base: '1h', jitter: false } as const
    const [byPolicy, byDelay, hopeless, last, dropped, invalid] = [
      await enqueue(1, { retry }),
      await enqueue(2, { retry }),
      await enqueue(3, { retry }),
      await enqueue(4, { retry, maxAttempts: 1 }),
      await enqueue(5),
      await enqueue(6),
    ]
    const jobs = await claim({ limit: 6 })
    const lease = (id: string) => jobs.find((job: { id: string }) => job.id === id).lease

    await settle(lease(byPolicy), 'failed', { error })
    await settle(lease(byDelay), 'failed', { error, delay: '2h' })
    await settle(lease(hopeless), 'failed', { error, retryable: false })
    await settle(lease(last), 'failed', { error })
    await settle(lease(dropped), 'dropped', { error })
    await settle(lease(invalid), 'invalid', { error })

    const found = async (id: string) => {
      const { state, reason, attempts, runAt } = (await server.holdfast.get(id))!
      const hours = state === 'retrying' ? Math.round((runAt!.getTime() - Date.now()) / 3_600_000) : null
      return { state, reason, hours, error: attempts[0]?.error?.name }
    }
    const kept = { error: 'SMTPError' }
    expect(await found(byPolicy)).toEqual({ state: 'retrying', reason: null, hours: 1, ...kept })
    expect(await found(byDelay)).toEqual({ state: 'retrying', reason: null, hours: 2, ...kept })
    expect(await found(hopeless)).toEqual({ state: 'dead', reason: 'dropped', hours: null, ...kept })
    expect(await found(last)).toEqual({ state: 'dead', reason: 'attempts', hours: null, ...kept })
    expect(await found(dropped)).toEqual({ state: 'dead', reason: 'dropped', hours: null, ...kept })
    expect(await found(invalid)).toEqual({ state: 'dead', reason: 'invalid', hours: null, ...kept })
  })

  test('released and snoozed jobs get their attempts back', async () => {
    const [first, second] = [await enqueue(), await enqueue()]
    const [a, b] = await claim({ limit: 2 })

    const released = (await post('release', { leases: [a.lease] })).json.jobs[0]
    const snoozed = await settle(b.lease, 'snoozed', { delay: '1h' })

    expect([released, snoozed]).toMatchObject([{ state: 'ready' }, { state: 'scheduled' }])
    expect([(await server.holdfast.get(first))?.attempt, (await server.holdfast.get(second))?.attempt]).toEqual([0, 0])
  })

  test('a cancel is answered to the next extension, and only then a job may be settled as cancelled', async () => {
    const id = await enqueue()
    const [job] = await claim()
    const early = await post('settle', { jobs: [{ lease: job.lease, outcome: 'cancelled' }] })

    await server.holdfast.cancel(id)
    const { json } = await post('extend', { leases: [job.lease] })
    const settled = await settle(job.lease, 'cancelled')

    expect([early.status, early.json.code]).toEqual([409, 'wrong_state'])
    expect(json.leases).toEqual([{ id, state: 'cancelled' }])
    expect(settled.state).toBe('cancelled')
  })

  test('a job that has had its time is not extended any more', async () => {
    await enqueue(null, { timeout: 50 })
    const [job] = await claim()
    await new Promise((resolve) => setTimeout(resolve, 80))

    const { json } = await post('extend', { leases: [job.lease] })

    expect(json.leases[0].state).toBe('timed_out')
    expect((await settle(job.lease, 'failed', { error })).state).toBe('retrying')
  })

  test('a job that is too old is settled before anybody gets it', async () => {
    const id = await enqueue(null, { maxAge: 1 })
    await new Promise((resolve) => setTimeout(resolve, 5))

    expect(await claim()).toEqual([])
    expect(await server.holdfast.get(id)).toMatchObject({ state: 'dead', reason: 'expired', attempt: 0 })
  })

  test('a claim waits for a job that comes, and each of several waiting claims gets one', async () => {
    const waiting = [claim({ wait: '20s' }), claim({ wait: '20s' }), claim({ wait: '20s' })]

    const ids = [await enqueue(1), await enqueue(2), await enqueue(3)]

    const claimed = (await Promise.all(waiting)).flat().map(({ id }: { id: string }) => id)
    expect(claimed.sort()).toEqual(ids.sort())
  })

  test('a claim whose caller has left takes no job along', async () => {
    const left = new AbortController()
    const gone = server
      .as(key, 'POST', '/v1/work/claim', { body: { worker: 'w', queues: ['mail'], wait: '20s' }, signal: left.signal })
      .catch(() => 'gone')
    await expect.poll(async () => (await server.holdfast.workers()).length).toBe(1)
    left.abort()
    await gone
    // The server ends the wait when it sees that the connection is closed.
    await expect.poll(() => server.events.filter(({ name }) => name === 'request').length).toBe(1)

    const id = await enqueue()

    await expect.poll(async () => (await claim()).map((job: { id: string }) => job.id)).toEqual([id])
  })

  test('limits hold: of a queue that runs one job at a time, a second claim gets nothing', async () => {
    await server.holdfast.setQueue('mail', { concurrency: 1 })
    await enqueue(1)
    await enqueue(2)

    const [first] = await claim({ limit: 5 })
    const none = await claim({ limit: 5 })
    await settle(first.lease, 'succeeded')
    const next = await claim({ limit: 5 })

    expect([none.length, next.length]).toEqual([0, 1])
  })

  test('progress and log lines are kept under the lease', async () => {
    const id = await enqueue()
    const [job] = await claim()

    await post('progress', { lease: job.lease, progress: { done: 1 } })
    await post('log', { lease: job.lease, lines: ['one', 'two'] })

    const view = (await server.holdfast.get(id))!
    expect(view.progress).toEqual({ done: 1 })
    expect(view.logs.map(({ text }) => text)).toEqual(['one', 'two'])
  })

  test('it is listed while it works, and not after it has left', async () => {
    await claim({ types: ['send'], concurrency: 4 })
    const during = await server.holdfast.workers()
    await post('leave', { worker: 'w1' })

    expect(during).toMatchObject([{ id: 'http:work:w1', queues: ['mail'], types: ['send'], concurrency: 4 }])
    expect(await server.holdfast.workers()).toEqual([])
  })

  test('any server of the store settles what another one claimed', async () => {
    await enqueue()
    const [job] = await claim()
    const other = await TestServer.open({}, server.store)
    const token = await other.key(['work'], ['mail'])

    const { json } = await other.as(token, 'POST', '/v1/work/settle', {
      body: { jobs: [{ lease: job.lease, outcome: 'succeeded' }] },
    })

    expect(json.jobs[0].state).toBe('succeeded')
    await other.server.close()
  })
})

describe('a worker key', () => {
  test('reaches no other queue, by claims or by leases', async () => {
    await server.holdfast.enqueue('send', null, { queue: 'billing' })
    const billing = await server.key(['work'], ['billing'])
    const { json } = await post('claim', { worker: 'b', queues: ['billing'], wait: 0 }, billing)
    const { lease } = json.jobs[0]

    const answers = await Promise.all([
      post('claim', { worker: 'w', queues: ['billing'], wait: 0 }),
      post('claim', { worker: 'w', queues: ['mail', 'billing'], wait: 0 }),
      post('extend', { leases: [lease] }),
      post('settle', { jobs: [{ lease, outcome: 'succeeded' }] }),
      post('release', { leases: [lease] }),
      post('progress', { lease, progress: 1 }),
      post('log', { lease, lines: ['x'] }),
    ])

    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403, 403, 403])
  })

  test('reads no job, not even its own', async () => {
    const id = await enqueue({ secret: 1 })
    await claim()

    const paths = ['/v1/jobs', `/v1/jobs/${id}`, `/v1/jobs/${id}/payload`, '/v1/queues', '/v1/workers', '/v1/events']
    for (const path of paths) expect([path, (await server.as(key, 'GET', path)).status]).toEqual([path, 403])
  })

  const lease = Buffer.alloc(200, 7).toString('base64url')
  const cases: [name: string, path: string, body: unknown, status: number][] = [
    ['a lease that was made up', 'settle', { jobs: [{ lease, outcome: 'succeeded' }] }, 400],
    ['a lease that is no text', 'extend', { leases: [7] }, 400],
    ['no leases', 'extend', { leases: [] }, 400],
    ['too many leases', 'extend', { leases: Array(1_001).fill(lease) }, 400],
    ['no queue', 'claim', { worker: 'w', queues: [] }, 400],
    ['a queue with a space', 'claim', { worker: 'w', queues: ['a b'] }, 400],
    ['a worker with a line break', 'claim', { worker: 'a\nb', queues: ['mail'], wait: 0 }, 400],
    ['a lease of an hour and more', 'claim', { worker: 'w', queues: ['mail'], lease: '2h', wait: 0 }, 400],
    ['a lease of a moment', 'claim', { worker: 'w', queues: ['mail'], lease: 5, wait: 0 }, 400],
    ['a wait of two minutes', 'claim', { worker: 'w', queues: ['mail'], wait: '2m' }, 400],
    ['a limit of 101', 'claim', { worker: 'w', queues: ['mail'], limit: 101, wait: 0 }, 400],
    ['an outcome that is none', 'settle', { jobs: [{ lease, outcome: 'done' }] }, 400],
    ['a failure without an error', 'settle', { jobs: [{ lease, outcome: 'failed' }] }, 400],
    ['an unknown field', 'release', { leases: [lease], now: true }, 400],
  ]
  test.each(cases)('is refused %s', async (_, path, body, status) => {
    const answer = await post(path, body)

    expect([answer.status, answer.json.code]).toEqual([status, expect.stringMatching(/^invalid_/)])
  })
})
