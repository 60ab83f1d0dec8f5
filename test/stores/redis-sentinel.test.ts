// A primary that sentinels watch: the store finds it, follows a failover and reports it.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { command } from '../../lab/servers/redis-cluster.js'
import { WatchedRedis } from '../../lab/servers/redis-sentinel.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { newJob, newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs, codeOf } from '../../src/testing/store-suite/steps.js'

let watched: WatchedRedis

beforeAll(async () => {
  const found = await WatchedRedis.open()
  if (found === null) throw new Error('redis-server is not installed: run `node scripts/redis.js --install` as root')
  watched = found
}, 60_000)
afterAll(() => watched.close())

describe('a primary that sentinels watch', () => {
  test('a name that they do not know is refused, with what to write', async () => {
    const error = await redisStore(watched.url.replace(/jobs$/, 'mymaster')).catch((thrown: Error) => thrown)

    expect(error).toMatchObject({ code: 'invalid_url' })
    expect((error as Error).message).toMatch(/does not know a primary named "mymaster"/)
  })

  test('sentinels that are away make the store unavailable', async () => {
    expect(await codeOf(redisStore('redis+sentinel://127.0.0.1:1/jobs'))).toBe('store_unavailable')
  })

  test('a failover is followed and reported, rescues hold back, and nothing that was replicated is lost', async () => {
    const store = await redisStore(watched.url, { durability: 'replicated', waitMs: 2_000 })
    const events: HoldfastEvent[] = []
    store.reportTo?.((event) => events.push(event))
    const jobs = newJobs(50)
    await store.enqueue(jobs)
    const [running, ...others] = await claimJobs(store)
    await store.settle(others.slice(0, 10).map((job) => succeeded(job)))
    // From here on this process knows which server it is on.
    await store.expired(10)
    const before = (await store.health()).redis!.replicationId

    await watched.primary.kill()
    await expect.poll(() => codeOf(store.enqueue([newJob()])), { timeout: 30_000, interval: 100 }).toBe(null)

    const { upMs } = await store.expired(10)
    const { redis } = await store.health()
    expect(upMs).toBeLessThan(5_000)
    expect(redis?.replicationId).not.toBe(before)
    expect(events).toEqual([{ name: 'store.failed_over', keys: '{hf:0}:', from: before, to: redis?.replicationId }])
    expect((await store.audit({ before: null, limit: 5 })).entries).toMatchObject([
      { actor: 'holdfast', action: 'failover', target: '{hf:0}:', details: { from: before } },
    ])
    const found = await Promise.all(jobs.map(({ id }) => store.get(id)))
    expect(found.map((job) => job?.state ?? 'lost').filter((state) => state === 'succeeded')).toHaveLength(10)
    expect(found.filter((job) => job === null)).toEqual([])
    // Claims do not wait for replicas, but this one was replicated with what came after it.
    expect((await store.settle([succeeded(running!)])).map(({ result }) => result)).toEqual(['settled'])
    expect(watched.replicas.some((replica) => command(replica, 'role').startsWith('master'))).toBe(true)
    await store.close()
  }, 60_000)
})
