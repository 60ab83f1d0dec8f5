// Flow control over a cluster: queues of several shards share a limit, processes die with it on loan, reports are lost. The limit is never
// passed, and no slot is left without its job.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { command, type RedisCluster } from '../../lab/servers/redis-cluster.js'
import { NO_LIMIT } from '../../src/core/flow/settings.js'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { functionName } from '../../src/stores/redis/library.js'
import { baseOf, SHARDS, shardOfName, slotOf } from '../../src/stores/redis/tags.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { newJob, newJobs, OPERATOR, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { openRedisCluster } from '../support/redis-cluster.js'
import { playFlow } from './flow-history.js'

const HISTORIES = 8
const JOBS = 900
const MOST = 7
const LIMIT = 'shared'
const HOME = shardOfName(LIMIT, SHARDS)
const FLOW = { group: null, limits: [LIMIT], cost: 1 }
/** Each in a shard of its own, and none in the home of the limit. */
const QUEUES = [1, 5, 9, 13].map((distance) => queueIn((HOME + distance) % SHARDS))

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await openRedisCluster({ replicas: 0 })
}, 60_000)
afterAll(() => cluster.close())
beforeEach(() => cluster.empty())

function queueIn(shard: number): string {
  for (let number = 0; ; number++) {
    if (shardOfName(`queue-${number}`, SHARDS) === shard) return `queue-${number}`
  }
}

/** Sends a command to the master of a shard, with `%` for the prefix of its keys. */
function inShard(shard: number, ...words: readonly string[]): string {
  return command(cluster.masterOf(slotOf(shard)), ...words.map((word) => word.replace('%', baseOf('', shard))))
}

/** What another process calls. */
function call(shard: number, name: string, nowMs: number, ...args: readonly (string | number)[]): string {
  return inShard(shard, 'FCALL', functionName(name), '1', '%', String(nowMs), 'other 0', ...args.map(String))
}

const claimOf = (queues: readonly string[], limit = 50) => {
  return { queues: queues.map((queue) => ({ queue, limit })), types: null, worker: 'w', leaseMs: 60_000 }
}

async function limited(store: Store, concurrency: number, jobs: number): Promise<void> {
  await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency }, OPERATOR)
  for (const queue of QUEUES) await store.enqueue(newJobs(jobs, { queue, flow: FLOW }))
}

describe('a limit that queues of several shards share', () => {
  test('counts the jobs of all of them, in the order in which a claim asks', async () => {
    const store = await redisStore(cluster.url)
    await limited(store, 5, 3)

    const first = await store.claim(claimOf(QUEUES))
    const second = await store.claim(claimOf(QUEUES))

    expect(first.jobs.map(({ queue }) => queue)).toEqual([...Array(3).fill(QUEUES[0]), ...Array(2).fill(QUEUES[1])])
    expect(second.jobs).toEqual([])
    expect(await store.limits()).toMatchObject([{ name: LIMIT, running: 5 }])
    await store.settle([succeeded(first.jobs[0]!)])
    expect((await store.claim(claimOf([QUEUES[3]!]))).jobs).toHaveLength(1)
    await store.close()
  })

  test('wakes a queue of another shard when a job ends', async () => {
    const store = await redisStore(cluster.url)
    await limited(store, 1, 1)
    const { jobs } = await store.claim(claimOf([QUEUES[0]!]))
    await store.claim(claimOf([QUEUES[2]!]))
    const woken = new Promise<void>((resolve) => {
      store.listen({ ready: (queue) => queue === QUEUES[2] && resolve() })
    })

    await store.settle([succeeded(jobs[0]!)])

    await woken
    await store.close()
  })

  test('is not given to a claim while another has it, and is taken from one that died with it', async () => {
    const clock = manualClock(START_MS)
    const store = await redisStore(cluster.url, { clock })
    await limited(store, 5, 3)
    const [queue] = QUEUES as [string]
    await store.claim(claimOf([queue], 1))
    const shard = shardOfName(QUEUES[1]!, SHARDS)
    const lent = call(HOME, 'borrow', clock.now(), shard, LIMIT)
    const number = /\b(\d{13})\b/.exec(lent.split('lent')[1]!)![1]!

    const meanwhile = await store.claim(claimOf([queue]))
    clock.advance(2_001)
    const later = await jobsBy(store, claimOf([queue]))

    expect(meanwhile).toMatchObject({ jobs: [], flow: [{ queue, more: false, waitMs: 5 }] })
    expect(later).toHaveLength(2)
    // The process was only slow: what it does now takes nothing.
    const settings = JSON.stringify({ ...NO_LIMIT, concurrency: 5 })
    const loan = [LIMIT, 'lent', number, clock.now(), 0, settings, '', '', '', '']
    call(shard, 'claim', clock.now(), 'late', 60_000, '*', 0, 1, ...loan, QUEUES[1]!, 50, 0)
    expect((await store.stats(QUEUES[1]!)).running).toBe(0)
    await store.close()
  })

  test('is counted again when it is full by a report that was lost', async () => {
    const store = await redisStore(cluster.url)
    await limited(store, 5, 3)
    const { jobs } = await store.claim(claimOf(QUEUES, 1))
    const known = inShard(HOME, 'HGETALL', `%runs:${LIMIT}`)
    await store.settle(jobs.map((job) => succeeded(job)))
    // As if the process had died between the settlements and their reports.
    const fields = known.split('\n')
    for (let at = 0; at + 1 < fields.length; at += 2) {
      inShard(HOME, 'HSET', `%runs:${LIMIT}`, fields[at]!, `9 ${fields[at + 1]!.split(' ')[1]} `)
    }

    const first = await store.claim(claimOf([QUEUES[0]!]))
    const taken: ClaimedJob[] = []
    for (let turn = 0; turn < 20 && taken.length < 5; turn++) taken.push(...(await jobsBy(store, claimOf(QUEUES))))

    expect(first.jobs).toEqual([])
    expect(taken).toHaveLength(5)
    expect((await store.claim(claimOf(QUEUES))).jobs).toEqual([])
    await store.close()
  })

  test('is counted again when its home may have lost a count', async () => {
    const store = await redisStore(cluster.url)
    await limited(store, 3, 3)
    await store.claim(claimOf(QUEUES))
    inShard(HOME, 'DEL', `%runs:${LIMIT}`)
    // As upkeep writes it down after a failover.
    inShard(HOME, 'HSET', '%meta', 'since', String((await store.now()) + 1))
    await sleep(5)

    expect((await store.claim(claimOf(QUEUES))).jobs).toEqual([])
    expect(await store.limits()).toMatchObject([{ running: 3 }])
    await store.close()
  })

  test('that was removed is unknown to the next job, and one in use is not removed', async () => {
    const store = await redisStore(cluster.url)
    await limited(store, 3, 1)

    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('busy')
    await store.settle((await store.claim(claimOf(QUEUES, 1))).jobs.map((job) => succeeded(job)))
    await store.settle((await store.claim(claimOf(QUEUES, 1))).jobs.map((job) => succeeded(job)))
    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('removed')
    const [answer] = await store.enqueue([newJob({ queue: QUEUES[0]!, flow: FLOW })])
    expect(answer).toMatchObject({ refused: { code: 'limit_unknown', limit: LIMIT } })
    await store.close()
  })

  test('lets jobs wait that name it while its home is away, and no others', async () => {
    const store = await redisStore(cluster.url)
    await limited(store, 3, 1)
    const home = cluster.masterOf(slotOf(HOME))
    const queue = QUEUES.find((each) => cluster.masterOf(slotOf(shardOfName(each, SHARDS))) !== home)!
    const plain = newJob({ queue })
    await store.enqueue([plain])

    process.kill(home.pid, 'SIGSTOP')
    const during = await store.claim(claimOf([queue])).finally(() => process.kill(home.pid, 'SIGCONT'))
    const after = await jobsBy(store, claimOf([queue]))

    expect(during.jobs.map(({ id }) => id)).toEqual([plain.id])
    expect(after).toHaveLength(1)
    await store.close()
  }, 30_000)
})

/** Claims until there are jobs: what a claim has asked for may come after its answer. */
async function jobsBy(store: Store, request: Parameters<Store['claim']>[0]): Promise<readonly ClaimedJob[]> {
  for (let turn = 0; turn < 200; turn++) {
    const { jobs } = await store.claim(request)
    if (jobs.length > 0) return jobs
    await sleep(10)
  }
  return []
}

describe('flow control over a cluster', () => {
  test(`${HISTORIES} random histories pass no limit, keep every order, forget no job`, async () => {
    let starts = 0
    for (let seed = 1; seed <= HISTORIES; seed++) {
      cluster.empty()
      const clock = manualClock(START_MS)
      const store = await redisStore(cluster.url, { clock })
      const played = await playFlow(store, clock, seed)
      starts += played.starts
      expect({ seed, problems: played.problems }).toEqual({ seed, problems: [] })
      await store.close()
    }
    expect(starts).toBeGreaterThan(HISTORIES * 10)
  }, 120_000)

  test('workers of several processes pass no limit and leave no job behind while connections are cut', async () => {
    const stores = await Promise.all([1, 2, 3].map(() => redisStore(cluster.url)))
    await stores[0]!.setLimit(LIMIT, { ...NO_LIMIT, concurrency: MOST }, OPERATOR)
    for (const queue of QUEUES) await stores[0]!.enqueue(newJobs(JOBS / QUEUES.length, { queue, flow: FLOW }))
    const untilMs = performance.now() + 60_000
    /** What surely runs at once: jobs by when their lease may be over. */
    const held = new Map<string, number>()
    let most = 0
    let left = JOBS
    let kills = 0
    let settled = 0
    const isOver = () => left === 0 || performance.now() > untilMs
    const work = async (store: Store, at: number) => {
      while (!isOver()) {
        const request = { ...claimOf([QUEUES[at % 4]!, QUEUES[(at + 1) % 4]!], 4), leaseMs: 1_000 }
        const overMs = performance.now() + request.leaseMs
        const { jobs } = await store.claim(request).catch(() => ({ jobs: [] }))
        for (const { id } of jobs) held.set(id, overMs)
        for (const [id, endMs] of held) if (endMs < performance.now()) held.delete(id)
        most = Math.max(most, held.size)
        await sleep(jobs.length === 0 ? 5 : 2)
        for (const { id } of jobs) held.delete(id)
        const answers = await store.settle(jobs.map((job) => succeeded(job))).catch(() => [])
        settled += answers.length
        at++
      }
    }
    const keepUp = async (store: Store) => {
      while (!isOver()) {
        await store.promote(100).catch(() => {})
        const { jobs } = await store.expired(100).catch(() => ({ jobs: [] }))
        const rescued = jobs.map((job) => ({ ...job, payload: '{}', version: 1, priority: 0, tags: [], trace: null }))
        await store
          .settle(
            rescued.map((job) => succeeded(job)),
            { onlyExpired: true },
          )
          .catch(() => [])
        left = await stores[0]!.stats(null).then(
          ({ ready, running }) => ready + running,
          () => left,
        )
        await sleep(50)
      }
    }
    const cut = async () => {
      // A busy machine takes longer to connect than between two cuts: the next comes when work has gone on.
      for (let turn = 0, settledBefore = -1; !isOver(); turn++, settledBefore = settled) {
        do await sleep(300)
        while (settled === settledBefore && !isOver())
        const master = cluster.masters[turn % cluster.masters.length]!
        kills += Number(command(master, 'client', 'kill', 'type', 'normal', 'skipme', 'yes'))
      }
    }

    await Promise.all([...stores, ...stores].map((store, at) => work(store, at)).concat(keepUp(stores[0]!), cut()))

    expect(left).toBe(0)
    expect(most).toBe(MOST)
    expect(kills).toBeGreaterThan(10)
    const slots = Array.from({ length: SHARDS }, (_, shard) => Number(inShard(shard, 'ZCARD', `%slots:${LIMIT}`)))
    expect(slots).toEqual(Array(SHARDS).fill(0))
    // Reports were lost with their connections. Whoever sets a limit counts.
    const last = await redisStore(cluster.url)
    const counted = await last.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 1 }, OPERATOR)
    expect(counted.running).toBe(0)
    await last.close()
    await Promise.all(stores.map((store) => store.close()))
  }, 90_000)
})
