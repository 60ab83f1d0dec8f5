// A worker and commands on a Redis Cluster: the built program, its heartbeat thread, real servers.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisCluster } from '../../lab/servers/redis-cluster.js'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/holdfast.js'
import { guessShard, SHARDS, shardOfName } from '../../src/stores/redis/tags.js'
import { openRedisCluster } from '../support/redis-cluster.js'
import { makeProject, type RunOptions, run, start } from './support.js'

const QUEUES = ['mail', 'video', 'default']
const JOBS = `
import { defineJob } from 'holdfast'
export const handlers = [
  defineJob('quick').handle(() => 'done'),
  defineJob('blocking').handle(() => {
    const endsAt = Date.now() + 4_000
    while (Date.now() < endsAt);
    return 'done'
  }),
]
`

let cluster: RedisCluster
let holdfast: Holdfast
let at: RunOptions

beforeAll(async () => {
  cluster = await openRedisCluster({ flags: { appendonly: 'yes' } })
  at = { env: { HOLDFAST_URL: cluster.url } }
  holdfast = await connect(cluster.url)
}, 60_000)
afterAll(async () => {
  await holdfast.close()
  await cluster.close()
})

describe('a worker on a Redis Cluster', () => {
  test('runs a chain over queues of several shards, and its thread extends leases in all', {
    timeout: 60_000,
  }, async () => {
    const cwd = await makeProject({ 'jobs.js': JOBS })
    const running = start(['worker', './jobs.js', '--queues', QUEUES.join(','), '--visibility-timeout', '2s'], {
      ...at,
      cwd,
    })
    const first = await holdfast.enqueue('blocking', {}, { queue: 'mail' })
    const second = await holdfast.enqueue('quick', {}, { queue: 'video', after: [first.id] })
    const last = await holdfast.enqueue('quick', {}, { queue: 'default', after: [first.id, second.id] })

    expect(await holdfast.wait(last.id, { timeout: '40s' })).toBe('done')

    expect((await holdfast.get(first.id))?.attempt).toBe(1)
    process.kill(running.pid, 'SIGTERM')
  })
})

describe('a queue that is spread', () => {
  test('is set by a command, and its jobs keep their leases in every shard', { timeout: 60_000 }, async () => {
    const set = await run(['queues', 'set', 'hot', '--spread', '16', '--create'], at)
    const cwd = await makeProject({ 'jobs.js': JOBS })
    const running = start(['worker', './jobs.js', '--queues', 'hot', '--visibility-timeout', '2s'], { ...at, cwd })
    const home = shardOfName('hot', SHARDS)
    const isAway = ({ id }: { readonly id: string }) => guessShard(id, SHARDS) !== home
    const enqueue = () => holdfast.enqueue('blocking', {}, { queue: 'hot' })
    // This process writes to each shard for a while.
    await expect.poll(async () => isAway(await holdfast.enqueue('quick', {}, { queue: 'hot' }))).toBe(true)
    const job = await enqueue()

    expect(await holdfast.wait(job.id, { timeout: '40s' })).toBe('done')

    expect((await holdfast.get(job.id))?.attempt).toBe(1)
    expect(set.stderr).toContain('spread over 16 shards, in order within each')
    expect((await run(['queues', 'show', 'hot'], at)).stdout).toMatch(/spread +over 16 shards/)
    process.kill(running.pid, 'SIGTERM')
  })
})

describe('commands on a Redis Cluster', () => {
  test('doctor says what is had, and that one master that is away stops all where it does', {
    timeout: 60_000,
  }, async () => {
    const doctor = await run(['doctor'], at)
    for (const master of cluster.masters) master.set('cluster-require-full-coverage', 'yes')
    const warned = await run(['doctor'], at)

    expect(doctor.stdout).toMatch(/cluster\s+16 shards on 3 masters/)
    expect(doctor.code).toBe(0)
    expect(warned.stdout).toMatch(/while one master is away, all refuse every call/)
  })
})
