// What a limit that queues of several shards share costs in a Redis Cluster: processor time of the servers and the time of a claim, with a limit
// and without, on one server and on three masters; and how many claims a second share one limit. Prints lines of figures.
// Run: npx tsx lab/experiments/loans.ts

import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { NO_LIMIT } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { say } from '../say.js'
import { RedisServer } from '../servers/redis.js'
import { command, RedisCluster } from '../servers/redis-cluster.js'

const ROUNDS = 60
const BATCH = 50
const SECONDS = 5
const WORKERS = 8
const QUEUES = ['mail', 'video', 'billing', 'search']
const FLOW = { group: null, limits: ['shared'], cost: 1 }

async function main(): Promise<void> {
  const one = await RedisServer.open()
  const cluster = await RedisCluster.open({ replicas: 0, flags: { appendonly: 'yes' } })
  if (one === null || cluster === null) throw new Error('redis-server is not installed')
  try {
    for (const [name, servers, url] of [
      ['one server', [one], one.url],
      ['three masters', cluster.masters, cluster.url],
    ] as const) {
      await cost(`${name}, plain jobs`, servers, url, false)
      await cost(`${name}, jobs of one limit`, servers, url, true)
      await crowd(name, url)
    }
  } finally {
    await Promise.all([one.close(), cluster.close()])
  }
}

/** One caller, batch after batch. */
async function cost(name: string, servers: readonly RedisServer[], url: string, isLimited: boolean): Promise<void> {
  const store = await redisStore(url)
  await store.setLimit('shared', { ...NO_LIMIT, concurrency: 10_000 }, 'lab')
  const queues = QUEUES.map((queue) => (isLimited ? queue : `plain-${queue}`))
  const before = processorMs(servers)
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const queue = queues[round % queues.length]!
    await store.enqueue(newJobs(BATCH, { queue, ...(isLimited ? { flow: FLOW } : {}) }))
    const startMs = performance.now()
    const { jobs } = await store.claim({ queues: [{ queue, limit: BATCH }], types: null, worker: 'w', leaseMs: 60_000 })
    times.push(performance.now() - startMs)
    await store.settle(jobs.map((job) => succeeded(job)))
  }
  const us = (1_000 * (processorMs(servers) - before)) / (ROUNDS * BATCH)
  const median = times.sort((a, b) => a - b)[times.length >> 1]!
  say(`${name}: ${us.toFixed(1)} µs of the servers a job, a claim of ${BATCH} takes ${median.toFixed(2)} ms (median)`)
  await store.close()
}

/** Several processes' worth of stores, each claiming a few jobs of the limit at a time from its own queue. */
async function crowd(name: string, url: string): Promise<void> {
  const stores = await Promise.all(Array.from({ length: WORKERS }, () => redisStore(url)))
  await stores[0]!.setLimit('shared', { ...NO_LIMIT, concurrency: 4 * WORKERS }, 'lab')
  const counts = { claims: 0, away: 0, jobs: 0 }
  const untilMs = performance.now() + SECONDS * 1_000
  await Promise.all(stores.map((store, at) => work(store, QUEUES[at % QUEUES.length]!, untilMs, counts)))
  await Promise.all(stores.map((store) => store.close()))
  const rate = (count: number) => Math.round(count / SECONDS)
  say(
    `${name}, ${WORKERS} callers, 4 jobs at a time: ${rate(counts.jobs)} jobs/s in ${rate(counts.claims)} claims/s; ${rate(counts.away)}/s more found the limit away`,
  )
}

async function work(
  store: Store,
  queue: string,
  untilMs: number,
  counts: { claims: number; away: number; jobs: number },
): Promise<void> {
  let waiting = 0
  while (performance.now() < untilMs) {
    if (waiting < 4) {
      await store.enqueue(newJobs(200, { queue, flow: FLOW }))
      waiting += 200
    }
    const request = { queues: [{ queue, limit: 4 }], types: null, worker: 'w', leaseMs: 60_000 }
    const { jobs, flow } = await store.claim(request)
    waiting -= jobs.length
    counts.jobs += jobs.length
    if (jobs.length > 0) {
      counts.claims++
      await store.settle(jobs.map((job) => succeeded(job)))
      continue
    }
    counts.away++
    waiting = flow?.[0]?.waitMs === null && flow[0]?.more === false ? 0 : waiting
    await sleep(flow?.[0]?.waitMs ?? 5)
  }
}

function processorMs(servers: readonly RedisServer[]): number {
  return servers.reduce((sum, server) => {
    const said = command(server, 'info', 'cpu')
    const fact = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(said)?.[1] ?? 0)
    return sum + 1_000 * (fact('used_cpu_user') + fact('used_cpu_sys'))
  }, 0)
}

await main()
