// The keys of long jobs on Redis: gone with their jobs, and absent where nothing was kept.

import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import type { Store } from '../../src/core/store.js'
import { shortId } from '../../src/stores/redis/ids.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { DAY_MS, newId, OPERATOR, START_MS, snoozed, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJob, enqueueJob, pruneAll, startJob } from '../../src/testing/store-suite/steps.js'
import { openCleanStore, openRedis } from '../support/redis.js'

const clock = manualClock(START_MS)
let server: RedisServer
let store: Store

beforeAll(async () => {
  server = await openRedis()
})
afterAll(() => server.close())
beforeEach(async () => {
  clock.set(START_MS)
  store = await openCleanStore(server, clock)
  return () => store.close()
})

function redisCli(...words: string[]): string[] {
  const { stdout } = spawnSync('redis-cli', ['-p', String(server.port), ...words], { encoding: 'utf8' })
  return stdout.split('\n').filter(Boolean).sort()
}

const effect = { kind: 'effect', name: 'charge', value: null, begun: 1, isEnded: false, tookMs: 0 } as const

test('nothing is left of a job that was pruned', async () => {
  const [child, job] = [await enqueueJob(store, { queue: 'children' }), await startJob(store)]
  await store.keep([{ ...job, entry: effect }])
  await store.write([{ ...job, offset: 0, chunks: ['text'] }])
  await store.signal([{ id: job.id, key: newId(), name: 'go', value: '1', by: OPERATOR }])
  const settlement = { state: 'blocked', attempt: 0, crashes: 0 } as const
  await store.settle([{ ...succeeded(job), settlement, children: { ids: [child], wakesEarly: false } }])
  const kept = [
    `kids:${shortId(child)}`,
    ...['output', 'signals', 'steps', 'wait'].map((key) => `${key}:${shortId(job.id)}`),
  ]
  const keys = redisCli('keys', '*')
  expect(kept.filter((key) => !keys.includes(`{hf:0}:${key}`))).toEqual([])
  await store.settle([succeeded(await claimJob(store, { queue: 'children' }))])
  await store.settle([succeeded(await claimJob(store))])
  await clock.advance(3 * DAY_MS)

  await pruneAll(store, DAY_MS)

  expect(redisCli('keys', '*')).toEqual(
    ['counts', 'meta', 'q:children', 'q:email', 'queues'].map((key) => `{hf:0}:${key}`),
  )
})

test('a job that keeps nothing has no key of long jobs, also after a wait for a time', async () => {
  await store.settle([snoozed(await startJob(store), 1_000)])

  const keys = redisCli('keys', '*').map((key) => key.slice('{hf:0}:'.length).split(':')[0])

  expect(keys.filter((key) => ['doubts', 'output', 'signals', 'steps', 'wait'].includes(key!))).toEqual([])
})
