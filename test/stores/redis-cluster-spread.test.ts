// One queue over several shards: nothing is lost, done twice or forgotten, whatever changes meanwhile; and what must be kept together stays
// together.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { command, type RedisCluster } from '../../lab/servers/redis-cluster.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { NO_LIMIT } from '../../src/core/flow/settings.js'
import type { ClaimedJob, NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { connect, type Holdfast } from '../../src/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { baseOf, guessShard, SHARDS, shardOfName, slotOf } from '../../src/stores/redis/tags.js'
import { keyed, newJob, newJobs, OPERATOR, retrying, succeeded } from '../../src/testing/store-suite/samples.js'
import { codeOf, listIds, stateOf, statesOf } from '../../src/testing/store-suite/steps.js'
import { openRedisCluster } from '../support/redis-cluster.js'

const QUEUE = 'hot'
const HOME = shardOfName(QUEUE, SHARDS)
const LIMIT = 'api'
const WORKERS = 4

let cluster: RedisCluster
const opened: { close(): Promise<void> }[] = []

beforeAll(async () => {
  cluster = await openRedisCluster({ replicas: 1 })
}, 60_000)
afterAll(() => cluster.close())
beforeEach(() => cluster.empty())
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close()
})

async function open(): Promise<Store> {
  const untilMs = performance.now() + 20_000
  for (;;) {
    try {
      const store = await redisStore(cluster.url)
      opened.push(store)
      return store
    } catch (error) {
      // The nodes may still be agreeing about the masters of the last test.
      if (!isHoldfastError(error) || !error.retryable || performance.now() > untilMs) throw error
    }
  }
}

async function openSpread(spread: number): Promise<Store> {
  const store = await open()
  await store.setQueue(QUEUE, { limits: {}, spread }, OPERATOR)
  return store
}

const claimOf = (limit = 5_000, leaseMs = 60_000) => {
  return { queues: [{ queue: QUEUE, limit }], types: null, worker: 'w', leaseMs }
}

/** How many jobs wait in each shard. */
function backlogs(): number[] {
  return Array.from({ length: SHARDS }, (_, shard) =>
    Number(command(cluster.masterOf(slotOf(shard)), 'zcard', `${baseOf('', shard)}line:${QUEUE}`)),
  )
}

const idsOf = (jobs: readonly { readonly id: string }[]) => jobs.map(({ id }) => id)
const sorted = (ids: readonly string[]) => [...ids].sort()

/** Claims and finishes jobs until no more come. Gives those that ran, in the order of their claims. */
async function drain(store: Store, limit = 5_000): Promise<ClaimedJob[]> {
  const done: ClaimedJob[] = []
  for (;;) {
    const { jobs } = await store.claim(claimOf(limit))
    if (jobs.length === 0) return done
    done.push(...jobs)
    await store.settle(jobs.map((job) => succeeded(job)))
  }
}

describe('a queue that is spread', () => {
  test('over as many shards as there are masters has one on each, whatever its name', async () => {
    const store = await open()
    const masters = Array.from({ length: SHARDS }, (_, shard) => cluster.masterOf(slotOf(shard)))
    const used = async (queue: string) => {
      await store.setQueue(queue, { limits: {}, spread: 3 }, OPERATOR)
      const ids = newJobs(100).map(({ id }) => id)
      return new Set(ids.map((id) => masters[store.parts!.of(queue, id)])).size
    }

    const names = Array.from({ length: SHARDS }, (_, number) => `hot-${number}`)
    expect(await Promise.all(names.map(used))).toEqual(names.map(() => 3))
  })

  test('has its jobs in so many shards, on every master, and is one queue for all who look', async () => {
    const store = await openSpread(4)
    const jobs = newJobs(200, { queue: QUEUE })
    await store.enqueue(jobs)
    const peer = await open()

    const used = [...backlogs().entries()].filter(([, count]) => count > 0).map(([shard]) => shard)
    expect(used).toHaveLength(4)
    expect(new Set(used.map((shard) => cluster.masterOf(slotOf(shard)))).size).toBe(3)
    expect(await peer.queues()).toEqual([{ name: QUEUE, paused: false, settings: { limits: {}, spread: 4 } }])
    expect(await peer.stats(QUEUE)).toMatchObject({ ready: 200 })
    const { queues } = await peer.overview()
    expect(queues.map(({ name, ready }) => [name, ready])).toEqual([[QUEUE, 200]])
    expect(sorted(await listIds(peer, { queues: [QUEUE] }, 200))).toEqual(sorted(idsOf(jobs)))
    expect(await peer.count({ queues: [QUEUE], states: ['ready'] }, { max: 1_000 })).toMatchObject({ count: 200 })
  })

  test('gives its jobs shard by shard, in order within each', async () => {
    const store = await openSpread(4)
    const jobs = newJobs(100, { queue: QUEUE })
    for (let from = 0; from < jobs.length; from += 10) await store.enqueue(jobs.slice(from, from + 10))

    const claimed = (await store.claim(claimOf())).jobs

    const shardOf = ({ id }: { readonly id: string }) => store.parts!.of(QUEUE, id)
    const changes = claimed.filter((job, at) => at > 0 && shardOf(job) !== shardOf(claimed[at - 1]!)).length
    expect(changes).toBe(3)
    for (const shard of new Set(claimed.map(shardOf))) {
      const inShard = (all: readonly { readonly id: string }[]) => idsOf(all.filter((job) => shardOf(job) === shard))
      expect(inShard(claimed)).toEqual(inShard(jobs))
    }
  })

  test('gives a claim no more than it asked for, from as many shards as that takes', async () => {
    const store = await openSpread(8)
    const jobs = newJobs(60, { queue: QUEUE })
    await store.enqueue(jobs)

    const first = (await store.claim(claimOf(25))).jobs
    const rest = (await store.claim(claimOf(1_000))).jobs

    expect([first.length, rest.length]).toEqual([25, 35])
    expect(sorted(idsOf([...first, ...rest]))).toEqual(sorted(idsOf(jobs)))
  })

  test('is written by one call to one shard, for jobs that are enqueued together', async () => {
    const holdfast = await connect(cluster.url)
    opened.push(holdfast)
    await holdfast.setQueue(QUEUE, { spread: 16 })

    const batches = await Promise.all([20, 20].map((count) => enqueueMany(holdfast, count)))

    for (const ids of batches) expect(new Set(ids.map((id) => guessShard(id, SHARDS))).size).toBeLessThanOrEqual(2)
    await expect
      .poll(
        async () => new Set((await enqueueMany(holdfast, 1)).map((id) => guessShard(id, SHARDS))).values().next().value,
      )
      .not.toBe(guessShard(batches[0]![0]!, SHARDS))
  })

  test('waits as a whole while it is paused, also in shards that it gets meanwhile', async () => {
    const store = await openSpread(2)
    const peer = await open()
    await store.pause(QUEUE, OPERATOR)
    await peer.setQueue(QUEUE, { limits: {}, spread: 8 }, OPERATOR)
    await peer.enqueue(newJobs(60, { queue: QUEUE }))

    expect((await store.claim(claimOf())).jobs).toEqual([])
    expect((await peer.claim(claimOf())).jobs).toEqual([])
    await store.resume(QUEUE, OPERATOR)

    expect(await drain(peer)).toHaveLength(60)
  })

  test('retries, delays, chains and rescues its jobs as any other', async () => {
    const store = await openSpread(4)
    const jobs = newJobs(20, { queue: QUEUE })
    const later = newJobs(20, { queue: QUEUE, when: { delayMs: 1 } })
    const last = newJob({ queue: QUEUE, after: idsOf([...jobs, ...later]) })
    await store.enqueue([...jobs, ...later, last])
    const promoted = async () => {
      await store.promote(100)
      return (await store.stats(QUEUE)).ready
    }
    await expect.poll(promoted).toBe(40)

    const claimed = (await store.claim(claimOf())).jobs
    await store.settle(claimed.slice(0, 20).map((job) => retrying(job, 0)))
    await store.settle(claimed.slice(20).map((job) => succeeded(job)))
    await store.promote(100)
    expect(await stateOf(store, last.id)).toBe('blocked')
    expect(await drain(store)).toHaveLength(21)

    expect(await statesOf(store, idsOf([...jobs, ...later, last]))).toEqual(Array(41).fill('succeeded'))
  })
})

async function enqueueMany(holdfast: Holdfast, count: number): Promise<string[]> {
  return idsOf(await holdfast.enqueueMany('work', Array(count).fill(null), { queue: QUEUE }))
}

describe('what must be kept together', () => {
  test('a key is one key over all shards, whatever changes', async () => {
    const store = await openSpread(1)
    const first = newJob({ queue: QUEUE, ...keyed('order-7') })
    await store.enqueue([first])
    const answers = []
    for (const spread of [8, 16, 2]) {
      await store.setQueue(QUEUE, { limits: {}, spread }, OPERATOR)
      answers.push(...(await store.enqueue(newJobs(5, { queue: QUEUE, ...keyed('order-7') }))))
    }

    expect(new Set(answers.map(({ id }) => id))).toEqual(new Set([first.id]))
    expect(await drain(store)).toHaveLength(1)
  })

  test('a group is whole in the home of its queue, in order', async () => {
    const store = await openSpread(8)
    const jobs = newJobs(40, { queue: QUEUE, flow: { group: 'acme', limits: [], cost: 1 } })
    for (let from = 0; from < jobs.length; from += 8) await store.enqueue(jobs.slice(from, from + 8))

    expect(idsOf(await drain(store, 7))).toEqual(idsOf(jobs))
    expect((await store.queues())[0]).toMatchObject({ settings: { spread: 8 } })
  })

  test('a limit by name is never passed by claims from all shards', async () => {
    const store = await openSpread(8)
    await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 3 }, OPERATOR)
    const jobs = newJobs(120, { queue: QUEUE, flow: { group: null, limits: [LIMIT], cost: 1 } })
    await store.enqueue(jobs)
    const done: string[] = []
    let most = 0
    let running = 0
    const work = async (peer: Store) => {
      let held: readonly ClaimedJob[] = []
      while (done.length < jobs.length || held.length > 0) {
        const claimed = (await peer.claim(claimOf(2))).jobs
        running += claimed.length
        most = Math.max(most, running)
        done.push(...idsOf(claimed))
        // Before the call: somewhere in it the store frees the slots.
        running -= held.length
        await peer.settle(held.map((job) => succeeded(job)))
        held = claimed
      }
    }

    await Promise.all([work(store), work(await open()), work(await open())])

    expect(most).toBeLessThanOrEqual(3)
    expect(sorted(done)).toEqual(sorted(idsOf(jobs)))
    expect((await store.limits())[0]).toMatchObject({ running: 0 })
  }, 60_000)
})

describe('spreading', () => {
  test('loses nothing and does nothing twice when it changes under load', async () => {
    const [store, peer, stranger] = [await openSpread(1), await open(), await open()]
    const enqueued: NewJob[] = []
    const done: string[] = []
    let isOver = false
    const enqueueing = async (each: Store) => {
      while (!isOver) {
        const jobs = newJobs(10, { queue: QUEUE }).map((job) => ({ ...job, id: each.parts!.mark(job.id, QUEUE, true) }))
        await each.enqueue(jobs)
        enqueued.push(...jobs)
      }
    }
    const working = async (each: Store) => {
      while (!isOver) done.push(...idsOf(await drain(each, 20)))
    }
    const load = [enqueueing(store), enqueueing(stranger), ...Array.from({ length: WORKERS }, () => working(peer))]

    for (const spread of [4, 16, 3, 1, 8]) {
      const before = done.length
      await store.setQueue(QUEUE, { limits: {}, spread }, OPERATOR)
      await expect.poll(() => done.length, { timeout: 20_000, interval: 20 }).toBeGreaterThan(before + 100)
    }
    isOver = true
    await Promise.all(load)
    done.push(...idsOf(await drain(store)))

    expect(done).toHaveLength(enqueued.length)
    expect(sorted(done)).toEqual(sorted(idsOf(enqueued)))
    expect(await peer.stats(QUEUE)).toMatchObject({ ready: 0, running: 0 })
  }, 90_000)

  test('leaves jobs where they are: their leases are found by whoever has them', async () => {
    const store = await open()
    // Their ids say any shard, and all of them are at home.
    const jobs = newJobs(40, { queue: QUEUE })
    await store.enqueue(jobs)
    await store.setQueue(QUEUE, { limits: {}, spread: 16 }, OPERATOR)
    const claimed = (await store.claim(claimOf())).jobs
    const peer = await open()

    const extension = await peer.extend(claimed, 60_000)
    const results = await peer.settle(claimed.map((job) => succeeded(job)))

    expect(backlogs().filter((count) => count > 0)).toEqual([])
    expect([claimed.length, extension.lost]).toEqual([40, []])
    expect(new Set(results.map(({ result }) => result))).toEqual(new Set(['settled']))
  })

  test('is refused beside flow control, and where there are no shards', async () => {
    const store = await openSpread(4)
    const holdfast = await connect(cluster.url)
    const memory = await connect('memory:')
    opened.push(holdfast, memory)
    const flow = { concurrency: 5 }

    expect(await codeOf(memory.setQueue(QUEUE, { spread: 2 }))).toBe('unsupported')
    expect(await codeOf(holdfast.setQueue('other', { spread: 17 }))).toBe('invalid_option')
    expect(await codeOf(holdfast.setQueue('other', { spread: 2, ...flow }))).toBe('invalid_option')
    expect(await codeOf(holdfast.setQueue(QUEUE, flow))).toBe('invalid_option')
    expect(await codeOf(holdfast.setQueue(QUEUE, { spread: 1, ...flow }))).toBe('invalid_option')
    await holdfast.setQueue(QUEUE, { maxAttempts: 3 })
    expect((await store.queues())[0]!.settings).toEqual({ limits: { maxAttempts: 3 }, spread: 4 })
    await memory.setQueue(QUEUE, { spread: 1 })
  })

  test('ends with the queue: it is removed when no shard has unfinished jobs', async () => {
    const store = await openSpread(4)
    await store.enqueue(newJobs(40, { queue: QUEUE }))

    expect(await store.removeQueue(QUEUE, OPERATOR)).toBe('busy')
    await drain(store)
    expect(await store.removeQueue(QUEUE, OPERATOR)).toBe('removed')

    expect(await store.queues()).toEqual([])
  })
})

test.each([
  ['hangs', (victim: RedisServer) => victim.signal('SIGSTOP'), (victim: RedisServer) => victim.signal('SIGCONT')],
  ['is killed', (victim: RedisServer) => victim.kill(), () => {}],
] as const)(
  'a master %s: the shards on others go on, and its own when it or a replica is there',
  async (_, stop, go) => {
    const store = await openSpread(16)
    const jobs = newJobs(160, { queue: QUEUE })
    await store.enqueue(jobs)
    const masters = Array.from({ length: SHARDS }, (_, shard) => cluster.masterOf(slotOf(shard)))
    const victim = masters[(HOME + 5) % SHARDS]!
    const elsewhere = idsOf(jobs).filter((id) => masters[guessShard(id, SHARDS)] !== victim)
    expect(elsewhere.length).toBeLessThan(jobs.length)

    await stop(victim)
    const done = new Set<string>()
    const work = async () => {
      const { jobs: claimed } = await store.claim(claimOf(20)).catch(() => ({ jobs: [] }))
      const results = await store.settle(claimed.map((job) => succeeded(job))).catch(() => [])
      for (const { id, result } of results) if (result === 'settled') done.add(id)
    }
    const isDone = (ids: readonly string[]) => async () => {
      await work()
      return ids.every((id) => done.has(id))
    }
    await expect.poll(isDone(elsewhere), { timeout: 10_000, interval: 20 }).toBe(true)
    go(victim)
    await cluster.ready()

    await expect.poll(isDone(idsOf(jobs)), { timeout: 20_000, interval: 50 }).toBe(true)
  },
  90_000,
)
