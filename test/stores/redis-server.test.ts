// What only a Redis server can do to a store: evict, refuse, run full, be emptied, be a replica.

import { spawnSync } from 'node:child_process'
import { afterEach, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { idMaker } from '../../src/core/id.js'
import type { NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { connect } from '../../src/index.js'
import { type RedisOptions, redisStore } from '../../src/stores/redis/index.js'
import { LIBRARY } from '../../src/stores/redis/library.js'
import { KEY_COMMANDS } from '../../src/stores/redis/rights.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { newJob, newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJob, claimJobs, codeOf, enqueueJob, stateOf } from '../../src/testing/store-suite/steps.js'
import { openRedis } from '../support/redis.js'

const opened: { close(): Promise<void> }[] = []

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close()
})

async function serve(flags: Readonly<Record<string, string>> = {}): Promise<RedisServer> {
  const server = await openRedis(flags)
  opened.push(server)
  return server
}

async function open(url: string, options: RedisOptions = {}): Promise<Store> {
  const store = await redisStore(url, options)
  opened.push(store)
  return store
}

function cli(server: RedisServer, ...words: string[]): string {
  return spawnSync('redis-cli', ['-p', String(server.port), ...words], { encoding: 'utf8' }).stdout.trim()
}

/** The error that a call fails with. */
async function failure(call: Promise<unknown>): Promise<{ readonly code: unknown; readonly message: string }> {
  return call.then(
    () => ({ code: null, message: 'it succeeded' }),
    (error: { code: unknown; message: string }) => error,
  )
}

describe('opening a Redis store', () => {
  test('a server that evicts keys is refused, with the setting to change', async () => {
    const server = await serve({ 'maxmemory-policy': 'allkeys-lru' })

    const error = await failure(redisStore(server.url))

    expect(error.code).toBe('store_refused')
    expect(error.message).toMatch(/maxmemory-policy allkeys-lru.*noeviction/)
  })

  test('a missing or wrong password is access_denied, and is not shown', async () => {
    const server = await serve({ requirepass: 'open-sesame' })

    const missing = await failure(redisStore(server.url))
    const wrong = await failure(redisStore(server.url.replace('//', '//:let-me-in@')))

    expect([missing.code, wrong.code]).toEqual(['access_denied', 'access_denied'])
    expect(wrong.message).not.toContain('let-me-in')
    await open(server.url.replace('//', '//:open-sesame@'))
  })

  test('a replica is refused as read-only', async () => {
    const primary = await serve()
    const replica = await serve({ replicaof: `127.0.0.1 ${primary.port}` })

    expect((await failure(redisStore(replica.url))).code).toBe('store_read_only')
  })

  test('a server that is away is unavailable, and the message says where it was sought', async () => {
    const error = await failure(redisStore('redis://user:s3cret@127.0.0.1:1'))

    expect(error.code).toBe('store_unavailable')
    expect(error.message).toMatch(/127\.0\.0\.1:1/)
    expect(error.message).not.toContain('s3cret')
  })

  test('without migrate an empty server is schema_missing, and stays empty', async () => {
    const server = await serve()

    expect((await failure(redisStore(server.url, { migrate: false }))).code).toBe('schema_missing')
    expect(cli(server, 'dbsize')).toBe('0')
  })

  test('a store of a newer layout is refused', async () => {
    const server = await serve()
    cli(server, 'hset', '{hf:0}:meta', 'layout', '99')

    const error = await failure(redisStore(server.url))

    expect(error.code).toBe('schema_too_new')
    expect(error.message).toMatch(/layout 99/)
  })

  test('an ACL user without a command is access_denied', async () => {
    const server = await serve()
    cli(server, 'acl', 'setuser', 'app', 'on', '>secret', '~*', '&*', '+@all', '-fcall')

    expect((await failure(redisStore(server.url.replace('//', '//app:secret@')))).code).toBe('access_denied')
  })

  test('a right that is missing is named when the store is opened, and nothing is written', async () => {
    const server = await serve()
    const user = (...rules: string[]) => {
      cli(server, 'acl', 'setuser', 'app', 'reset', 'on', '>secret', ...rules)
      return failure(redisStore(server.url.replace('//', '//app:secret@')))
    }

    const commands = await user('~*', '&*', '+@all', '-zadd', '-xadd')
    const channel = await user('~*', '+@all')
    const keys = await user('~other:*', '&*', '+@all')

    expect([commands.code, channel.code, keys.code]).toEqual(['access_denied', 'access_denied', 'access_denied'])
    expect(commands.message).toMatch(/may not run XADD, ZADD on \{hf:0\}:\*/)
    expect(channel.message).toMatch(/may not run SPUBLISH, SSUBSCRIBE/)
    expect(keys.message).toMatch(/HSET/)
    expect(cli(server, 'dbsize')).toBe('0')
  })

  test('every command of the functions is among the rights that are asked for', () => {
    const used = [
      ...LIBRARY.matchAll(
        /(?:redis\.call\(|later\(work, |callWith\(|listFor\(work, |demand\(work, known, |= )'([A-Z]{3,})'/g,
      ),
    ]
    const names = new Set(used.map(([, name]) => name!))

    expect([...names].filter((name) => !(name in KEY_COMMANDS) && !name.startsWith('HF')).sort()).toEqual([
      'SPUBLISH',
      'TIME',
    ])
  })

  test('the ACL rule of the documents is enough', async () => {
    const server = await serve()
    cli(server, 'acl', 'setuser', 'app', 'on', '>secret', '~*{hf:*', '&*{hf:*', ...ACL_RULE.split(' '))
    const store = await open(server.url.replace('//', '//app:secret@'))

    await enqueueJob(store)
    await store.settle([succeeded(await claimJob(store))])
    await store.prune({ retentionMs: 1_000 })
    expect((await store.health()).kind).toBe('redis')
  })

  test('two stores with different prefixes do not see each other', async () => {
    const server = await serve()
    const [one, other] = [await open(server.url, { prefix: 'a:' }), await open(server.url, { prefix: 'b:' })]
    await enqueueJob(one)

    expect((await one.stats(null)).ready).toBe(1)
    expect((await other.stats(null)).ready).toBe(0)
  })
})

const ACL_RULE =
  '+fcall +fcall_ro +function|list +function|load +info +wait +ssubscribe +@connection +@scripting +@read +@write +@stream +spublish +time'

describe('a Redis server under a store', () => {
  test('at maxmemory an enqueue is refused whole, and what was accepted is finished', async () => {
    const server = await serve()
    const store = await open(server.url)
    await store.enqueue(newJobs(10))
    cli(server, 'config', 'set', 'maxmemory', '1mb')
    const jobs = newJobs(10)

    const error = await failure(store.enqueue(jobs))

    expect(error.code).toBe('store_refused')
    expect(error.message).toMatch(/maxmemory/)
    expect(await Promise.all(jobs.map(({ id }) => store.get(id)))).toEqual(jobs.map(() => null))
    const claimed = await claimJobs(store)
    expect(await store.extend(claimed, 60_000)).toEqual({ lost: [], cancelled: [] })
    const results = await store.settle(claimed.map((job) => succeeded(job)))
    expect(results.every(({ result }) => result === 'settled')).toBe(true)
    cli(server, 'config', 'set', 'maxmemory', '0')
    await store.enqueue(jobs)
    expect((await store.stats(null)).ready).toBe(10)
  })

  test('at maxmemory another process can still connect and finish jobs', async () => {
    const server = await serve()
    await (await open(server.url)).enqueue(newJobs(3))
    cli(server, 'config', 'set', 'maxmemory', '1mb')

    const late = await open(server.url)
    const claimed = await claimJobs(late)

    expect(claimed).toHaveLength(3)
    expect((await late.settle(claimed.map((job) => succeeded(job)))).map(({ result }) => result)).toEqual(
      claimed.map(() => 'settled'),
    )
  })

  test('jobs of types that a claim did not know are kept apart by queue, also where names have colons', async () => {
    const server = await serve()
    const store = await open(server.url)
    const claim = (queue: string, type: string) =>
      store.claim({ queues: [{ queue, limit: 5 }], types: [type], worker: 'w', leaseMs: 60_000 })
    const [one, other] = [newJob({ queue: 'a', type: 'b:c' }), newJob({ queue: 'a:b', type: 'c' })]
    await store.enqueue([one, other])
    for (const queue of ['a', 'a:b']) expect((await claim(queue, 'unknown')).jobs).toEqual([])

    expect((await claim('a', 'b:c')).jobs.map(({ id }) => id)).toEqual([one.id])
    expect((await claim('a:b', 'c')).jobs.map(({ id }) => id)).toEqual([other.id])
  })

  test('a claim does not wait for replicas: its jobs would be leased to nobody', async () => {
    const primary = await serve()
    const replica = await serve({ replicaof: `127.0.0.1 ${primary.port}` })
    const store = await open(primary.url, { durability: 'replicated', waitMs: 5_000 })
    await store.enqueue(newJobs(3))
    cli(replica, 'replicaof', 'no', 'one')

    expect(await claimJobs(store)).toHaveLength(3)
  })

  test('a time in the year 9999 is kept to the millisecond', async () => {
    const server = await serve()
    const store = await open(server.url)
    const runAtMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
    const job = newJob({ when: { runAtMs } })

    await store.enqueue([job])

    expect((await store.get(job.id))?.runAt?.getTime()).toBe(runAtMs)
  })

  test('after FLUSHALL every call says schema_missing, and nothing is written', async () => {
    const server = await serve()
    const store = await open(server.url)
    const [job] = [await enqueueJob(store)]
    cli(server, 'flushall')

    expect(await codeOf(store.enqueue([newJob()]))).toBe('schema_missing')
    expect(await codeOf(claimJobs(store))).toBe('schema_missing')
    expect(await codeOf(store.get(job))).toBe('schema_missing')
    expect(cli(server, 'dbsize')).toBe('0')
  })

  test('functions that were removed are loaded again by the next call', async () => {
    const server = await serve()
    const store = await open(server.url)
    cli(server, 'function', 'flush')

    const id = await enqueueJob(store)

    expect(await stateOf(store, id)).toBe('ready')
  })

  test('a key of somebody else under our names is an error, and nothing is written', async () => {
    const server = await serve()
    const store = await open(server.url)
    cli(server, 'set', '{hf:0}:chunks', 'mine')

    expect(await codeOf(store.enqueue([newJob()]))).toBe('store_refused')
    expect(cli(server, 'exists', '{hf:0}:line:email', '{hf:0}:queues')).toBe('0')
  })

  test.each([
    ['line:email', 'enqueue'],
    ['counts', 'enqueue'],
    ['leases', 'claim'],
    ['audit', 'pause'],
  ])(
    'a key of somebody else at %s refuses the %s whole, and it can be repeated when that is gone',
    async (key, call) => {
      const server = await serve()
      const store = await open(server.url)
      const [known, job] = [newJob(), newJob()]
      await store.enqueue([known])
      const keysNow = () => cli(server, '--scan').split('\n').sort()
      cli(server, 'del', `{hf:0}:${key}`)
      cli(server, 'set', `{hf:0}:${key}`, 'mine')
      const keys = keysNow()
      const act = (): Promise<unknown> =>
        call === 'enqueue' ? store.enqueue([job]) : call === 'claim' ? claimJobs(store) : store.pause('email', 'ada')

      const error = await failure(act())

      expect(error.code).toBe('store_refused')
      expect(error.message).toMatch(/nothing was written/)
      expect(keysNow()).toEqual(keys)
      expect(await store.get(job.id)).toBe(null)
      cli(server, 'del', `{hf:0}:${key}`)
      await act()
      if (call === 'enqueue') expect((await claimJobs(store)).map(({ id }) => id)).toContain(job.id)
    },
  )

  test('a right that is taken away under a store refuses its calls whole', async () => {
    const server = await serve()
    cli(server, 'acl', 'setuser', 'app', 'on', '>secret', '~*', '&*', '+@all')
    const store = await open(server.url.replace('//', '//app:secret@'))
    const job = newJob()
    cli(server, 'acl', 'setuser', 'app', '-zadd')

    const error = await failure(store.enqueue([job]))

    expect(error.code).toBe('access_denied')
    expect(error.message).toMatch(/ZADD/)
    cli(server, 'acl', 'setuser', 'app', '+zadd')
    expect(await store.get(job.id)).toBe(null)
    expect(await store.enqueue([job])).toEqual([{ id: job.id, created: true, state: 'ready' }])
    expect((await claimJob(store)).id).toBe(job.id)
  })

  test('a claim does not read the payloads of jobs that it passes over', async () => {
    const server = await serve()
    cli(server, 'acl', 'setuser', 'app', 'on', '>secret', '~{hf:0}:', '~{hf:0}:[^b]*', '&*', '+@all')
    const store = await open(server.url)
    const payload = JSON.stringify('x'.repeat(100_000))
    const others = Array.from({ length: 20 }, () => newJob({ type: 'other', payload }))
    const job = newJob()
    await store.enqueue([...others, job])
    expect(cli(server, 'hvals', '{hf:0}:f:').length).toBeLessThan(5_000)
    // This user may not read where long payloads are.
    const peer = await open(server.url.replace('//', '//app:secret@'))

    const claim = await peer.claim({
      queues: [{ queue: 'email', limit: 5 }],
      types: [job.type],
      worker: 'w',
      leaseMs: 60_000,
    })

    expect(claim.jobs.map(({ id }) => id)).toEqual([job.id])
    const [first] = await claimJobs(store, { limit: 1 })
    expect([first?.id, first?.payload]).toEqual([others[0]!.id, payload])
  })

  test('an enqueue at maxmemory fails immediately, and its message says what to do', async () => {
    const server = await serve()
    const holdfast = await connect(server.url)
    opened.push(holdfast)
    cli(server, 'config', 'set', 'maxmemory', '1mb')
    const startMs = performance.now()

    const error = await failure(holdfast.enqueue('mail', {}, { queue: 'email' }))

    expect(error.code).toBe('store_refused')
    expect(error.message).toMatch(/maxmemory is reached: raise it/)
    expect(performance.now() - startMs).toBeLessThan(2_000)
  })

  test('connections that were cut are opened again', async () => {
    const server = await serve()
    const store = await open(server.url)
    await enqueueJob(store)
    cli(server, 'client', 'kill', 'type', 'normal')

    await expect.poll(() => codeOf(store.enqueue([newJob()]))).toBe(null)
    expect((await store.stats(null)).ready).toBeGreaterThan(0)
  })

  test('a wake-up reaches the listeners of another process', async () => {
    const server = await serve()
    const [store, peer] = [await open(server.url), await open(server.url)]
    const heard: unknown[] = []
    peer.listen({ ready: (...seen) => heard.push(seen) })
    await expect.poll(() => cli(server, 'pubsub', 'shardchannels')).toContain('wake')

    await enqueueJob(store)

    await expect.poll(() => heard).toEqual([['email', false]])
  })

  test('a listener is told each time that wake-ups arrive from now on: those before were sent to nobody', async () => {
    const server = await serve()
    const store = await open(server.url)
    let times = 0
    store.listen({ hears: () => void times++ })
    await expect.poll(() => times).toBe(1)

    cli(server, 'client', 'kill', 'type', 'pubsub')

    await expect.poll(() => times, { timeout: 30_000 }).toBe(2)
  })

  test('a cancel of a running job reaches the listeners of another process', async () => {
    const server = await serve()
    const [store, peer] = [await open(server.url), await open(server.url)]
    const heard: string[] = []
    peer.listen({ cancel: (id) => void heard.push(id) })
    await expect.poll(() => cli(server, 'pubsub', 'shardchannels')).toContain('wake')
    const id = await enqueueJob(store)
    await claimJob(store)

    await store.cancel([id], 'ada')

    await expect.poll(() => heard).toEqual([id])
  })

  test('what was accepted is in the append-only file: a server that loads it has the job', async () => {
    const server = await serve({ appendonly: 'yes', appendfsync: 'always', 'enable-debug-command': 'yes' })
    const store = await open(server.url)
    const id = await enqueueJob(store)

    const loaded = cli(server, 'debug', 'loadaof')

    expect(loaded).toBe('OK')
    expect(await stateOf(store, id)).toBe('ready')
    expect((await claimJob(store)).id).toBe(id)
  })

  test('with durability replicated a write waits for a replica, and is unavailable without one', async () => {
    const primary = await serve()
    const store = await open(primary.url)
    await enqueueJob(store)
    const waiting = await failure(
      redisStore(primary.url, { durability: 'replicated', waitMs: 50 }).then((each) => {
        opened.push(each)
        return each.enqueue([newJob()])
      }),
    )
    expect(waiting.code).toBe('store_unavailable')
    expect(waiting.message).toMatch(/0 of 1 replicas/)

    await serve({ replicaof: `127.0.0.1 ${primary.port}` })
    await expect.poll(() => cli(primary, 'wait', '1', '100'), { timeout: 10_000 }).toBe('1')

    const replicated = await open(primary.url, { durability: 'replicated', waitMs: 5_000 })
    await enqueueJob(replicated)
    expect((await replicated.health()).redis).toMatchObject({ durability: 'replicated', replicas: 1 })
  })

  test('a write whose server becomes a replica while it waits for one is unavailable, and may be repeated', async () => {
    const primary = await serve()
    const replica = await serve({ replicaof: `127.0.0.1 ${primary.port}` })
    const store = await open(primary.url, { durability: 'replicated', waitMs: 5_000 })
    cli(replica, 'replicaof', 'no', 'one')

    const waiting = failure(store.enqueue([newJob()]))
    await expect.poll(() => cli(primary, 'info', 'clients')).toMatch(/blocked_clients:1/)
    cli(primary, 'replicaof', '127.0.0.1', '1')

    expect(await waiting).toMatchObject({ code: 'store_unavailable', retryable: true })
  })
})

describe('ids that come late', () => {
  test('no job is lost when ids come in any order', async () => {
    const server = await serve()
    const store = await open(server.url)
    const random = seededRandom(7)
    const makers = [0, 500, 20_000].map((lateMs) => idMaker(() => Date.now() - lateMs, random))
    const jobs: NewJob[] = []
    for (let call = 0; call < 60; call++) {
      const batch = Array.from({ length: 1 + (call % 40) }, () => {
        return newJob({ id: makers[Math.floor(random.float() * 3)]!() })
      })
      jobs.push(...batch)
      await store.enqueue(batch)
    }

    const found = await Promise.all(jobs.map(({ id }) => store.get(id)))
    expect(found.filter((job) => job === null)).toEqual([])
    expect((await claimJobs(store, { limit: 5_000 })).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    const sizes = cli(server, '--scan', '--pattern', '{hf:0}:f:*')
      .split('\n')
      .map((key) => Number(cli(server, 'hlen', key)))
    expect(Math.max(...sizes)).toBeLessThanOrEqual(128)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(jobs.length)
  })
})

describe('a server where functions are forbidden', () => {
  test('the same text is called as a script, and loaded again when the server has forgotten it', async () => {
    const server = await serve()
    cli(server, 'acl', 'setuser', 'app', 'on', '>secret', '~*', '&*', '+@all', '-function', '-fcall', '-fcall_ro')
    const store = await open(server.url.replace('//', '//app:secret@'))
    const id = await enqueueJob(store)
    cli(server, 'script', 'flush')

    await store.settle([succeeded(await claimJob(store))])

    expect(await stateOf(store, id)).toBe('succeeded')
    expect(cli(server, 'function', 'list')).toBe('')
    cli(server, 'config', 'set', 'maxmemory', '1mb')
    expect(await codeOf(store.enqueue([newJob()]))).toBe('store_refused')
    expect(await claimJobs(store)).toEqual([])
  })
})
