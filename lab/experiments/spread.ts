// What it brings and costs to spread one hot queue over the shards of a Redis Cluster of three masters: processor time of the busiest master and
// of all, for each job that is enqueued, claimed and settled, in batches and one by one, with a backlog and without; and a claim that finds
// nothing. Prints lines of figures.
// Run: npx tsx lab/experiments/spread.ts

import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { say } from '../say.js'
import type { RedisServer } from '../servers/redis.js'
import { command, RedisCluster } from '../servers/redis-cluster.js'

const QUEUE = 'hot'
const SPREADS = [1, 3, 16]
const ROUNDS = 200
const IDLE_CLAIMS = 200
const BACKLOG = 16_000
const FILL_TURNS = 32
const TURN_MS = 50

async function main(): Promise<void> {
  const cluster = await RedisCluster.open({ replicas: 0, flags: { appendonly: 'yes' } })
  if (cluster === null) throw new Error('redis-server is not installed')
  try {
    for (const spread of SPREADS) {
      cluster.empty()
      const store = await redisStore(cluster.url)
      await store.setQueue(QUEUE, { limits: {}, spread }, 'lab')
      for (const batch of [100, 1]) await cost(`spread ${spread}, ${batch} at a time`, store, cluster.masters, batch)
      await idle(`spread ${spread}`, store)
      await fill(store)
      for (const batch of [100, 1]) {
        await cost(`spread ${spread}, a backlog, ${batch} at a time`, store, cluster.masters, batch)
      }
      await store.close()
    }
  } finally {
    await cluster.close()
  }
}

async function cost(name: string, store: Store, masters: readonly RedisServer[], batch: number): Promise<void> {
  const before = masters.map(processorMs)
  const rounds = batch === 1 ? 10 * ROUNDS : ROUNDS
  for (let round = 0; round < rounds; round++) {
    const jobs = newJobs(batch, { queue: QUEUE })
    await store.enqueue(jobs.map((job) => ({ ...job, id: store.parts!.mark(job.id, QUEUE, true) })))
    const { jobs: claimed } = await store.claim(claimOf(batch))
    await store.settle(claimed.map((job) => succeeded(job)))
  }
  const used = masters.map((master, at) => (1_000 * (processorMs(master) - before[at]!)) / (rounds * batch))
  const sum = used.reduce((total, each) => total + each, 0)
  say(`${name}: ${Math.max(...used).toFixed(1)} µs of the busiest master a job, ${sum.toFixed(1)} µs of all`)
}

/** A backlog in every shard: a process writes to each for a while. */
async function fill(store: Store): Promise<void> {
  for (let turn = 0; turn < FILL_TURNS; turn++) {
    const jobs = newJobs(BACKLOG / FILL_TURNS, { queue: QUEUE })
    await store.enqueue(jobs.map((job) => ({ ...job, id: store.parts!.mark(job.id, QUEUE, true) })))
    await sleep(TURN_MS)
  }
}

async function idle(name: string, store: Store): Promise<void> {
  const times: number[] = []
  for (let round = 0; round < IDLE_CLAIMS; round++) {
    const startMs = performance.now()
    await store.claim(claimOf(10))
    times.push(performance.now() - startMs)
  }
  const median = times.sort((a, b) => a - b)[times.length >> 1]!
  say(`${name}: a claim that finds nothing takes ${median.toFixed(2)} ms (median)`)
}

function claimOf(limit: number): Parameters<Store['claim']>[0] {
  return { queues: [{ queue: QUEUE, limit }], types: null, worker: 'w', leaseMs: 60_000 }
}

function processorMs(server: RedisServer): number {
  const said = command(server, 'info', 'cpu')
  const fact = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(said)?.[1] ?? 0)
  return 1_000 * (fact('used_cpu_user') + fact('used_cpu_sys'))
}

await main()
