// Plain jobs take fast paths through the functions of the Redis store, in one call with others that do not.

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import type { ClaimedJob, SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { idAt, newJob, newJobs, QUEUE, released, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs, stateOf } from '../../src/testing/store-suite/steps.js'
import { openRedis } from '../support/redis.js'

let server: RedisServer
let stores = 0

beforeAll(async () => {
  server = await openRedis()
})
afterAll(() => server.close())

async function withStore(run: (store: Store) => Promise<void>): Promise<void> {
  const store = await redisStore(server.url, { prefix: `paths-${++stores}:` })
  try {
    await run(store)
  } finally {
    await store.close()
  }
}

const T = 1_800_000_000_000

test('a call with ids below and above the highest there is writes each job once, in the order of the call', () =>
  withStore(async (store) => {
    await store.enqueue([newJob({ id: idAt(T) })])
    const mixed = [T - 500, T - 400, T + 1, T + 2].map((ms) => newJob({ id: idAt(ms) }))

    const first = await store.enqueue(mixed)
    const claimed = await claimJobs(store, { limit: 10 })
    const repeated = await store.enqueue(mixed)

    expect(first).toMatchObject(mixed.map(({ id }) => ({ id, created: true, state: 'ready' })))
    expect(repeated).toMatchObject(mixed.map(({ id }) => ({ id, created: true, state: 'running' })))
    expect(await claimJobs(store, { limit: 10 })).toEqual([])
    expect(claimed.slice(1).map(({ id }) => id)).toEqual(mixed.map(({ id }) => id))
    expect(claimed).toHaveLength(5)
  }))

test('ids that do not rise are all found, over several chunks', () =>
  withStore(async (store) => {
    const jobs = Array.from({ length: 300 }, (_, index) => newJob({ id: idAt(T + ((index * 7) % 300)) }))

    await store.enqueue(jobs)
    await store.enqueue(newJobs(100).map((job, index) => ({ ...job, id: idAt(T + 300 + index) })))
    const claimed = await claimJobs(store, { limit: 1_000 })

    expect(claimed.slice(0, 300).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    expect(new Set(claimed.map(({ id }) => id)).size).toBe(400)
  }))

test('an enqueue claims its first jobs, and the others are ready', () =>
  withStore(async (store) => {
    const [old] = await store.enqueue([newJob({ id: idAt(T) })])
    const jobs = [T - 1, T + 1, T + 2].map((ms) => newJob({ id: idAt(ms), payload: JSON.stringify('x'.repeat(2_000)) }))

    const answers = await store.enqueue(jobs, { claim: { worker: 'w', leaseMs: 60_000, count: 2 } })
    const rest = await claimJobs(store, { limit: 10 })

    expect(answers).toMatchObject([
      { id: jobs[0]!.id, state: 'running', claimed: { id: jobs[0]!.id, payload: jobs[0]!.payload, attempt: 1 } },
      { id: jobs[1]!.id, state: 'running', claimed: { id: jobs[1]!.id, payload: jobs[1]!.payload, attempt: 1 } },
      { id: jobs[2]!.id, state: 'ready' },
    ])
    expect(rest.map(({ id, payload }) => [id, payload.length])).toEqual([
      [old!.id, newJob().payload.length],
      [jobs[2]!.id, 2_002],
    ])
    expect((await store.get(jobs[1]!.id))?.payload).toBe('x'.repeat(2_000))
  }))

test('a claim takes jobs that were claimed before and new ones in the order of the backlog, with their attempts', () =>
  withStore(async (store) => {
    await store.enqueue(newJobs(3))
    const before = await claimJobs(store, { limit: 3 })
    await store.settle(before.map((job, index) => (index === 0 ? succeeded(job) : givenBack(job))))
    const fresh = newJobs(2)
    await store.enqueue(fresh)

    const claimed = await claimJobs(store, { limit: 10 })

    expect(claimed.map(({ id }) => id)).toEqual([before[1]!.id, before[2]!.id, fresh[0]!.id, fresh[1]!.id])
    expect(claimed[0]!.fence).toBeGreaterThan(before[1]!.fence)
    expect(claimed.map(({ attempt, crashes }) => [attempt, crashes])).toEqual([
      ...[2, 2].map((attempt) => [attempt, 1]),
      ...[1, 1].map((attempt) => [attempt, 0]),
    ])
    expect((await store.overview()).queues.find(({ name }) => name === QUEUE)).toMatchObject({ ready: 0, running: 4 })
  }))

/** Its attempt and a crash count. */
function givenBack(job: ClaimedJob): SettledJob {
  return released(job, { settlement: { state: 'ready', attempt: job.attempt, crashes: 1 } })
}

test('among simple successes the lost, the repeated and those with a result are told apart', () =>
  withStore(async (store) => {
    await store.enqueue(newJobs(4))
    const [one, two, three, four] = await claimJobs(store, { limit: 4 })
    await store.settle([succeeded(four!)])

    const results = await store.settle([
      succeeded(one!),
      succeeded({ ...two!, fence: two!.fence - 1 }),
      succeeded(three!, { result: '{"sent":true}' }),
      succeeded(four!),
    ])

    expect(results.map(({ result, state }) => [result, state])).toEqual([
      ['settled', 'succeeded'],
      ['lost', null],
      ['settled', 'succeeded'],
      ['settled', 'succeeded'],
    ])
    expect(await stateOf(store, two!.id)).toBe('running')
    expect((await store.get(three!.id))?.result).toEqual({ sent: true })
    expect((await store.overview()).queues.find(({ name }) => name === QUEUE)).toMatchObject({ ready: 0, running: 1 })
  }))

test('a job that comes after one that simply succeeds goes on', () =>
  withStore(async (store) => {
    const parent = newJob()
    const child = newJob({ after: [parent.id] })
    await store.enqueue([parent, child])
    const [claimed] = await claimJobs(store, { limit: 5 })

    await store.settle([succeeded(claimed!)])

    expect((await claimJobs(store, { limit: 5 })).map(({ id }) => id)).toEqual([child.id])
  }))
