// What a Redis Cluster costs and gives: processor time of the masters for the same jobs on one server and on three masters, and what it takes to
// find a job by an id that says its shard and by one that does not. Prints lines of figures. Run: npx tsx lab/experiments/shards.ts

import { performance } from 'node:perf_hooks'
import { idMaker } from '../../src/core/id.js'
import type { NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { SHARDS } from '../../src/stores/redis/tags.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { newJob, succeeded } from '../../src/testing/store-suite/samples.js'
import { say } from '../say.js'
import { RedisServer } from '../servers/redis.js'
import { command, RedisCluster } from '../servers/redis-cluster.js'

/** In each round, of which there are several in turn: the figures are medians. */
const JOBS = 96_000
const ROUNDS = 5
const BATCH = 250
const GETS = 2_000
const QUEUES = Array.from({ length: 4 * SHARDS }, (_, number) => `queue-${number}`)

const makeId = idMaker(() => Date.now(), seededRandom(1))

async function main(): Promise<void> {
  const one = await RedisServer.open()
  const cluster = await RedisCluster.open({ replicas: 0, flags: { appendonly: 'yes' } })
  if (one === null || cluster === null) throw new Error('redis-server is not installed')
  try {
    const shares: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const [alone] = await costs([one], one.url)
      const apart = await costs(cluster.masters, cluster.url)
      shares.push(Math.max(...apart) / alone!)
      const each = apart.map((us) => us.toFixed(1)).join(', ')
      say(`one server: ${alone!.toFixed(1)} µs a job; three masters: ${each}; the busiest ${percent(shares.at(-1)!)}`)
      one.empty()
      cluster.empty()
    }
    say(`the busiest of three masters: ${percent(median(shares))} of the one server (median of ${ROUNDS} rounds)`)
    await finding(cluster)
  } finally {
    await Promise.all([one.close(), cluster.close()])
  }
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!
}

/** Processor time of each server for a job that is enqueued, claimed and done, in microseconds. */
async function costs(servers: readonly RedisServer[], url: string): Promise<number[]> {
  const store = await redisStore(url)
  const before = servers.map(processorMs)
  await Promise.all(QUEUES.slice(0, 8).map((_, lane) => run(store, lane)))
  const after = servers.map(processorMs)
  await store.close()
  return after.map((ms, index) => (1_000 * (ms - before[index]!)) / JOBS)
}

async function run(store: Store, lane: number): Promise<void> {
  const own = QUEUES.filter((_, number) => number % 8 === lane)
  for (let batch = 0; batch < JOBS / 8 / BATCH; batch++) {
    const queue = own[batch % own.length]!
    await store.enqueue(Array.from({ length: BATCH }, () => job(store, queue)))
    const { jobs } = await store.claim({ queues: [{ queue, limit: BATCH }], types: null, worker: 'w', leaseMs: 60_000 })
    await store.settle(jobs.map((each) => succeeded(each)))
  }
}

function job(store: Store, queue: string): NewJob {
  const id = makeId()
  return newJob({ id: store.parts?.mark(id, queue) ?? id, queue })
}

async function finding(cluster: RedisCluster): Promise<void> {
  const store = await redisStore(cluster.url)
  const marked: string[] = []
  const unmarked: string[] = []
  for (const queue of QUEUES) {
    const jobs = Array.from({ length: 32 }, () => job(store, queue))
    const others = Array.from({ length: 32 }, () => newJob({ id: makeId(), queue }))
    await store.enqueue([...jobs, ...others])
    marked.push(...jobs.map(({ id }) => id))
    unmarked.push(...others.map(({ id }) => id))
  }
  // The second time, the shard of an id that does not say it is known to the process.
  const rounds = { 'with its shard': marked, without: unmarked, 'without, known from before': unmarked }
  for (const [name, ids] of Object.entries(rounds)) {
    const before = calledUs(cluster)
    const times: number[] = []
    for (const id of ids.slice(0, GETS)) {
      const startMs = performance.now()
      await store.get(id)
      times.push(performance.now() - startMs)
    }
    const us = (calledUs(cluster) - before) / times.length
    say(`get by an id ${name}: ${us.toFixed(0)} µs of the servers, ${median(times).toFixed(2)} ms (median)`)
  }
  await store.close()
}

function fact(server: RedisServer, section: string, name: string): number {
  return Number(new RegExp(`${name}:([\\d.]+)`).exec(command(server, 'info', section))?.[1] ?? 0)
}

function processorMs(server: RedisServer): number {
  return 1_000 * (fact(server, 'cpu', 'used_cpu_user') + fact(server, 'cpu', 'used_cpu_sys'))
}

/** What all masters have spent in functions that read. */
function calledUs({ masters }: RedisCluster): number {
  return masters.reduce((sum, server) => {
    return sum + Number(/cmdstat_fcall_ro:calls=\d+,usec=(\d+)/.exec(command(server, 'info', 'commandstats'))?.[1] ?? 0)
  }, 0)
}

await main()
