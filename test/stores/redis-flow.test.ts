// Flow control on Redis: random histories, callers at the same moment, and connections that are cut in the middle of calls. No limit is passed,
// no job is left behind, and no slot is left without its job.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { openConnection } from '../../src/stores/redis/node-redis.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { newJob, OPERATOR, START_MS } from '../../src/testing/store-suite/samples.js'
import { openCleanStore, openRedis } from '../support/redis.js'
import { enqueueSurely, keepUp, OF_QUEUE, prepare, SHARED, work } from './flow-crowd.js'
import { playFlow } from './flow-history.js'

const HISTORIES = 40
const JOBS = 1_500
const DEADLINE_MS = 100_000

let server: RedisServer

beforeEach(async () => {
  server = await openRedis()
})
afterEach(() => server.close())

/** What runs at one moment: of the shared limit, of the queue `one`, and the most of a group, of an ordered one last. */
const RUNNING = `
local function most(pattern)
  local found = 0
  for _, key in ipairs(redis.call('KEYS', '{hf:0}:busy:' .. pattern)) do found = math.max(found, redis.call('ZCARD', key)) end
  return found
end
local shared, one = redis.call('ZCARD', '{hf:0}:slots:shared'), redis.call('HGET', '{hf:0}:q:one', 'running') or '0'
return cjson.encode({ shared = shared, one = tonumber(one), inGroup = math.max(most('one *'), most('two *')), inOrdered = most('ordered *') })`

/** Every key of flow control that a queue without jobs should not have. */
const LEFT = `
local found = {}
for _, kind in ipairs({ 'slots', 'busy', 'again', 'place', 'held', 'groups' }) do
  for _, key in ipairs(redis.call('KEYS', '{hf:0}:' .. kind .. ':*')) do found[#found + 1] = key end
end
return found`

describe('flow control on Redis', () => {
  test(`${HISTORIES} random histories pass no limit, keep every order, forget no job`, async () => {
    let starts = 0
    for (let seed = 1; seed <= HISTORIES; seed++) {
      const clock = manualClock(START_MS)
      const store = await openCleanStore(server, clock)
      const played = await playFlow(store, clock, seed)
      starts += played.starts
      expect({ seed, problems: played.problems }).toEqual({ seed, problems: [] })
      await store.close()
    }
    expect(starts).toBeGreaterThan(HISTORIES * 10)
  }, 120_000)

  test('concurrent claims pass no limit and leave no job behind while connections are cut', async () => {
    const untilMs = performance.now() + DEADLINE_MS
    const stores: Store[] = []
    for (let index = 0; index < 4; index++) stores.push(await redisStore(server.url))
    await prepare(stores[0]!)
    const watcher = await openConnection({ url: server.url, connectMs: 5_000 })
    let isDone = false
    const isOver = () => isDone || performance.now() > untilMs
    const most = { shared: 0, one: 0, inGroup: 0, inOrdered: 0 }
    let kills = 0
    const watch = async () => {
      while (!isOver()) {
        const now = JSON.parse(String(await watcher.send(['EVAL', RUNNING, '0']))) as typeof most
        for (const name of Object.keys(most) as (keyof typeof most)[]) most[name] = Math.max(most[name], now[name])
        await sleep(3)
      }
    }
    const cut = async () => {
      while (!isOver()) {
        await sleep(250)
        kills += Number(await watcher.send(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes']))
      }
    }

    const running = [watch(), cut(), keepUp(stores[3]!, isOver, () => {})]
    for (const [index, store] of stores.entries()) running.push(work(store, `worker-${index}`, isOver))
    await enqueueSurely(stores.slice(0, 3), JOBS)
    let left = JOBS
    while (!isOver() && left > 0) {
      await sleep(50)
      left = await stores[0]!.stats(null).then(
        ({ ready, running, retrying }) => ready + running + retrying,
        () => left,
      )
    }
    isDone = true
    await Promise.all(running)
    await Promise.all(stores.map((store) => store.close()))

    expect(left).toBe(0)
    expect(await watcher.send(['EVAL', LEFT, '0'])).toEqual([])
    watcher.destroy()
    expect(most.one).toBeLessThanOrEqual(OF_QUEUE)
    // Not less either: the test means nothing when limits are never reached.
    expect(most).toMatchObject({ shared: SHARED, inGroup: 2, inOrdered: 1 })
    expect(kills).toBeGreaterThan(20)
  }, 130_000)

  test('a queue of many jobs that is switched to order gives each group its first job, in any process', async () => {
    const store = await redisStore(server.url)
    const jobs = Array.from({ length: 6_000 }, (_, index) =>
      newJob({ queue: 'large', priority: index % 7, flow: { group: `g${index % 3}`, limits: [], cost: 1 } }),
    )
    for (let at = 0; at < jobs.length; at += 1_000) await store.enqueue(jobs.slice(at, at + 1_000))
    const flow = { ...NO_QUEUE_FLOW, groups: { ...NO_GROUP_SETTINGS, ordered: true } }

    await store.setQueue('large', { limits: {}, flow }, OPERATOR)

    const request = { queues: [{ queue: 'large', limit: 10 }], types: null, worker: 'w', leaseMs: 60_000 }
    const claimed = await store.claim(request)
    expect(claimed.jobs.map(({ id }) => id).sort()).toEqual(jobs.slice(0, 3).map(({ id }) => id))
    await store.close()
  })
})
