// What only a cluster can do to a store: lose a master, move a slot, be no cluster at all, or only a part of one.

import { once } from 'node:events'
import { createServer, type Server, connect as tcpConnect } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { command, type RedisCluster } from '../../lab/servers/redis-cluster.js'
import { isHoldfastError } from '../../src/core/errors.js'
import type { SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { connect } from '../../src/index.js'
import { type RedisOptions, redisStore } from '../../src/stores/redis/index.js'
import { baseOf, guessShard, markId, SHARDS, shardOfName, slotOf } from '../../src/stores/redis/tags.js'
import { newJob, newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { codeOf, stateOf } from '../../src/testing/store-suite/steps.js'
import { openRedis } from '../support/redis.js'
import { openRedisCluster } from '../support/redis-cluster.js'

let cluster: RedisCluster
const opened: { close(): Promise<void> }[] = []

beforeAll(async () => {
  // Two replicas each: with one, no write could be replicated after a failover.
  cluster = await openRedisCluster({ replicas: 2 })
}, 60_000)
afterAll(() => cluster.close())
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close()
})

async function open(url: string = cluster.url, options: RedisOptions = {}): Promise<Store> {
  const store = await redisStore(url, options)
  opened.push(store)
  return store
}

async function failure(call: Promise<unknown>): Promise<{ readonly code: unknown; readonly message: string }> {
  return call.then(
    () => ({ code: null, message: 'it succeeded' }),
    (error: { code: unknown; message: string }) => error,
  )
}

/** The name of a queue in this shard. */
function queueIn(shard: number): string {
  for (let number = 0; ; number++) {
    if (shardOfName(`queue-${number}`, SHARDS) === shard) return `queue-${number}`
  }
}

const claimFrom = (queue: string, limit = 5_000) => {
  return { queues: [{ queue, limit }], types: null, worker: 'w', leaseMs: 60_000 }
}

describe('the shards of a cluster', () => {
  test('have slots that lie apart, each on its own sixteenth of the cluster', () => {
    const sixteenths = Array.from({ length: SHARDS }, (_, shard) => Math.floor(slotOf(shard) / 1_024))

    expect(new Set(sixteenths).size).toBe(SHARDS)
    expect(command(cluster.masters[0]!, 'cluster', 'keyslot', baseOf('', 11))).toBe(String(slotOf(11)))
  })

  test('never change for a name: the table is part of the layout', () => {
    const names = ['default', 'email', 'mail.welcome', 'Ümläut', '']

    expect(names.map((name) => shardOfName(name, SHARDS))).toEqual(names.map((name) => SHARD_OF[name]))
  })

  test('a job of this version says in its id where it is, and is found in one call', async () => {
    const holdfast = await connect(cluster.url)
    opened.push(holdfast)
    const handles = await Promise.all(
      Array.from({ length: 8 }, (_, number) => holdfast.enqueue('mail', {}, { queue: `marked-${number}` })),
    )

    expect(handles.map(({ id }) => guessShard(id, SHARDS))).toEqual(
      handles.map((_, number) => shardOfName(`marked-${number}`, SHARDS)),
    )
    expect(markId('0199c0de-0000-7000-8000-000000000000', 13).at(-1)).toBe('d')
    for (const { id } of handles) expect((await holdfast.get(id))?.id).toBe(id)
  })

  test('a queue is whole in one of them, in exact order', async () => {
    const store = await open()
    const queue = queueIn(9)
    const jobs = newJobs(200, { queue })
    for (let from = 0; from < jobs.length; from += 20) await store.enqueue(jobs.slice(from, from + 20))

    expect((await store.claim(claimFrom(queue))).jobs.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    expect(command(cluster.masterOf(slotOf(9)), 'zcard', `${baseOf('', 9)}leases`)).toBe('200')
  })
})

const SHARD_OF: Readonly<Record<string, number>> = { default: 2, email: 2, 'mail.welcome': 6, Ümläut: 1, '': 1 }

const ACL_RULE =
  '+fcall +fcall_ro +function|list +function|load +info +wait +ssubscribe +@connection +@scripting +@read +@write +@stream +spublish +time +cluster|slots'

describe('what is no cluster, or not as it is said', () => {
  test('a single server given as redis+cluster:// is refused, with the URL to write', async () => {
    const server = await openRedis()
    opened.push(server)

    const error = await failure(redisStore(server.url.replace('redis:', 'redis+cluster:')))

    expect(error.code).toBe('unsupported')
    expect(error.message).toMatch(/is not a node of a Redis Cluster: write redis:\/\//)
  })

  test('a cluster given as redis:// is refused, with the URL to write', async () => {
    const error = await failure(redisStore(cluster.masters[0]!.url))

    expect(error.code).toBe('unsupported')
    expect(error.message).toMatch(/write redis\+cluster:\/\//)
  })

  test('a proxy in front of several servers is refused', async () => {
    const servers = [await openRedis(), await openRedis()]
    const proxy = await spreading(servers.map(({ port }) => port))
    opened.push(...servers, proxy)

    const error = await failure(redisStore(`redis://127.0.0.1:${proxy.port}`))

    expect(error.code).toBe('unsupported')
    expect(error.message).toMatch(/is not one server.*proxy/)
    expect(servers.map((server) => command(server, 'dbsize'))).toEqual(['0', '0'])
  })

  test('an address that is moved to another server as the store is opened may be opened again', async () => {
    const servers = [await openRedis(), await openRedis()]
    const [former, next] = servers.map(({ port }) => port) as [number, number]
    const proxy = await spreading([former, next, next, next])
    opened.push(...servers, proxy)

    const error = await failure(redisStore(`redis://127.0.0.1:${proxy.port}`))

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect(error.message).toMatch(/was moved to another server/)
  })

  test('replicas lead to their masters', async () => {
    const store = await open(`redis+cluster://127.0.0.1:${cluster.replicas[0]!.port}`)

    expect((await store.health()).redis?.role).toBe('primary')
  })

  test.each([
    ['redis+cluster://', /must look like redis:\/\/user:password/],
    ['redis+cluster://one,two/3', /no databases/],
    ['redis+cluster://one,t wo', /host 2 of 2/],
    ['redis://one,two', /redis\+cluster:\/\/ for a cluster/],
    ['redis+sentinel://one,two', /name of the primary/],
    ['redis+sentinel://one/jobs?x=1', /"x" is not an option/],
  ])('%s is refused before anything is opened', async (url, message) => {
    const error = await failure(connect(url))

    expect(error.code).toBe('invalid_url')
    expect(error.message).toMatch(message)
  })

  test('the ACL rule of the documents is enough, and a right that is missing is named', async () => {
    const user = (...rules: string[]) => {
      const rule = ['reset', 'on', '>secret', '~*{hf:*', '&*{hf:*', ...ACL_RULE.split(' '), ...rules]
      for (const server of cluster.servers) command(server, 'acl', 'setuser', 'app', ...rule)
      return redisStore(cluster.url.replace('//', '//app:secret@'))
    }

    const refused = await failure(user('-zadd'))
    const store = await user()
    opened.push(store)
    await store.enqueue([newJob()])

    expect(refused.code).toBe('access_denied')
    expect(refused.message).toMatch(/ZADD/)
    expect((await store.health()).redis?.cluster?.masters).toHaveLength(3)
  })

  test('health says what is had: masters, shards, and whether one that is away stops all', async () => {
    const store = await open()

    const { redis } = await store.health()

    expect(redis).toMatchObject({ replicas: 2, cluster: { shards: SHARDS, requiresFullCoverage: false } })
    expect(redis?.cluster?.masters).toHaveLength(3)
  })
})

describe('calls over several shards', () => {
  test('a call that died after it was written down is finished by upkeep of another process', async () => {
    const [store, peer] = [await open(), await open()]
    const jobs = Array.from({ length: 40 }, (_, number) => newJob({ queue: queueIn(number % SHARDS) }))
    // One shard refuses: something else is at the key of its backlog.
    const broken = queueIn(5)
    const key = `${baseOf('', 5)}line:${broken}`
    command(cluster.masterOf(slotOf(5)), 'del', key)
    command(cluster.masterOf(slotOf(5)), 'set', key, 'mine')

    expect(await codeOf(store.enqueue(jobs))).toBe('store_refused')
    command(cluster.masterOf(slotOf(5)), 'del', key)

    await expect
      .poll(() => peer.promote(10).then(() => missing(peer, jobs)), { timeout: 15_000, interval: 500 })
      .toEqual([])
    await expect.poll(() => messages(), { timeout: 5_000 }).toEqual(0)
  })

  test('a chain through three shards goes on with each settlement', async () => {
    const store = await open()
    const [one, two] = [newJob({ queue: queueIn(1) }), newJob({ queue: queueIn(7) })]
    const last = newJob({ queue: queueIn(12), after: [one.id, two.id] })
    await store.enqueue([one, two, last])
    const end = async (queue: string) => {
      await store.settle((await store.claim(claimFrom(queue))).jobs.map((job) => succeeded(job)))
    }

    await end(one.queue)
    expect((await store.get(last.id))?.state).toBe('blocked')
    await end(two.queue)

    expect((await store.get(last.id))?.state).toBe('ready')
  })
})

describe('what a failover has lost of a chain', () => {
  test('is found again: a job whose parent has ended elsewhere goes on', async () => {
    const store = await open()
    const parent = newJob({ queue: queueIn(2) })
    const child = newJob({ queue: queueIn(8), after: [parent.id] })
    await store.enqueue([parent, child])
    // As if the shard of the parent had lost what it knew of the child.
    const master = cluster.masterOf(slotOf(2))
    for (const key of command(master, '--scan', '--pattern', `${baseOf('', 2)}kin:*`).split('\n')) {
      command(master, 'del', key)
    }
    await store.settle((await store.claim(claimFrom(parent.queue))).jobs.map((job) => succeeded(job)))
    expect(await stateOf(store, child.id)).toBe('blocked')

    await (await open()).promote(100)

    expect(await stateOf(store, child.id)).toBe('ready')
  })
})

async function missing(store: Store, jobs: readonly { readonly id: string }[]): Promise<string[]> {
  const found = await Promise.all(jobs.map(({ id }) => store.get(id)))
  return jobs.filter((_, index) => found[index] === null).map(({ id }) => id)
}

/** Messages between shards that were not delivered. */
function messages(): number {
  let count = 0
  for (let shard = 0; shard < SHARDS; shard++) {
    count += Number(command(cluster.masterOf(slotOf(shard)), 'xlen', `${baseOf('', shard)}out`))
  }
  return count
}

/** Other shards are to go on within two seconds of the loss of a master. The machine of a test may be busy; what waits for the lost one
 *  takes longer than this: a call has ten seconds. */
const GONE_ON_MS_MAX = 6_000

describe('a cluster under load', () => {
  test('slots move to another node while jobs are enqueued and done: none is lost, none runs twice', async () => {
    const store = await open()
    const queue = queueIn(3)
    const slot = slotOf(3)
    const from = cluster.masterOf(slot)
    const to = cluster.masters.find((master) => master.isRunning && master !== from)!
    const load = new Load(store, [queue])
    await load.until(200)

    await cluster.move(slot, to, () => load.turn())
    await load.until(load.accepted.size + 200)
    await load.stop()

    expect(cluster.masterOf(slot)).toBe(to)
    expect(await load.unfinished()).toEqual([])
    expect(load.twice).toEqual([])
  }, 60_000)

  test('a slot that each of two nodes says the other has is away, and the call is safe to repeat', async () => {
    const store = await open()
    const queue = queueIn(3)
    const slot = String(slotOf(3))
    const from = cluster.masterOf(slotOf(3))
    const to = cluster.masters.find((master) => master.isRunning && master !== from)!
    const [fromId, toId] = [from, to].map((server) => command(server, 'cluster', 'myid')) as [string, string]
    command(to, 'cluster', 'setslot', slot, 'importing', fromId)
    command(from, 'cluster', 'setslot', slot, 'migrating', toId)
    const keys = command(from, 'cluster', 'getkeysinslot', slot, '1000').split('\n')
    command(from, 'migrate', '127.0.0.1', String(to.port), '', '0', '5000', 'KEYS', ...keys)
    // The last step of a move, on one of the two only.
    command(from, 'cluster', 'setslot', slot, 'node', toId)

    const [job] = newJobs(1, { queue })
    const error = await failure(store.enqueue([job!]))
    command(to, 'cluster', 'setslot', slot, 'node', toId)

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect(error.message).toContain('do not agree yet')
    expect(await codeOf(store.enqueue([job!]))).toBe(null)
    expect(await stateOf(store, job!.id)).toBe('ready')
  }, 30_000)

  test('a master that hangs does not hold up the other shards', async () => {
    const store = await open()
    const victim = cluster.masterOf(slotOf(0))
    const shards = [...Array(SHARDS).keys()]
    const others = shards.filter((shard) => cluster.masterOf(slotOf(shard)) !== victim)
    const going = new Load(store, others.map(queueIn), shards.map(queueIn))
    await going.until(100)

    process.kill(victim.pid, 'SIGSTOP')
    const stoppedMs = performance.now()
    await going.until(going.accepted.size + 50)
    await going.untilDone(new Set(going.accepted))
    const goneOnMs = performance.now() - stoppedMs
    process.kill(victim.pid, 'SIGCONT')
    await going.stop()
    await cluster.ready()

    expect(goneOnMs).toBeLessThan(GONE_ON_MS_MAX)
    expect(await going.unfinished()).toEqual([])
  }, 60_000)

  test('a master is killed: other shards go on, nothing accepted as replicated is lost', async () => {
    const store = await open(cluster.url, { durability: 'replicated', waitMs: 1_000 })
    const victim = cluster.masterOf(slotOf(0))
    const shards = [...Array(SHARDS).keys()]
    const hit = shards.filter((shard) => cluster.masterOf(slotOf(shard)) === victim)
    const others = shards.filter((shard) => !hit.includes(shard))
    const stopped = new Load(store, hit.map(queueIn))
    // Its worker claims from all queues, also those of the shards that are away.
    const going = new Load(store, others.map(queueIn), shards.map(queueIn))
    await Promise.all([stopped.until(100), going.until(100)])

    await victim.kill()
    const killedMs = performance.now()
    await going.until(going.accepted.size + 50)
    await going.untilDone(new Set(going.accepted))
    const goneOnMs = performance.now() - killedMs
    await stopped.until(stopped.accepted.size + 50)
    await Promise.all([stopped.stop(), going.stop()])

    expect(goneOnMs).toBeLessThan(GONE_ON_MS_MAX)
    // A claim whose answer was lost leaves leases to run out.
    const states = await Promise.all([...stopped.accepted, ...going.accepted].map((id) => stateOf(store, id)))
    expect(states.filter((state) => state !== 'succeeded' && state !== 'running')).toEqual([])
    expect([...stopped.twice, ...going.twice]).toEqual([])
  }, 90_000)
})

/** Enqueues jobs one call after another and does them, and knows what was accepted. */
class Load {
  readonly accepted = new Set<string>()
  /** Jobs whose success was confirmed for two leases. */
  readonly twice: string[] = []
  readonly #store: Store
  readonly #queues: readonly string[]
  readonly #claimed: readonly string[]
  readonly #done = new Set<string>()
  #isStopped = false
  readonly #running: Promise<void>[]

  constructor(store: Store, queues: readonly string[], claimed: readonly string[] = queues) {
    this.#store = store
    this.#queues = queues
    this.#claimed = claimed
    this.#running = [this.#enqueue(), this.#work()]
  }

  async #enqueue(): Promise<void> {
    for (let number = 0; !this.#isStopped; number++) {
      const jobs = newJobs(5, { queue: this.#queues[number % this.#queues.length]! })
      await this.#again(() => this.#store.enqueue(jobs))
      for (const { id } of jobs) this.accepted.add(id)
      await this.turn()
    }
  }

  async #work(): Promise<void> {
    const request = {
      queues: this.#claimed.map((queue) => ({ queue, limit: 20 })),
      ...{ types: null, worker: 'w', leaseMs: 60_000 },
    }
    for (;;) {
      const { jobs } = await this.#again(() => this.#store.claim(request))
      await this.#settle(jobs.map((job) => succeeded(job)))
      if (this.#isStopped && jobs.length === 0) return
      await this.turn()
    }
  }

  /** Those of a shard that is away are sent again later, beside the work of others, as a worker does. */
  async #settle(jobs: readonly SettledJob[]): Promise<void> {
    if (jobs.length === 0) return
    const results = await this.#again(() => this.#store.settle(jobs))
    for (const { id, result } of results) {
      if (result !== 'settled') continue
      if (this.#done.has(id)) this.twice.push(id)
      this.#done.add(id)
    }
    const locked = jobs.filter((_, index) => results[index]!.result === 'locked')
    if (locked.length === 0) return
    const later = new Promise((resolve) => setTimeout(resolve, 100)).then(() => this.#settle(locked))
    this.#running.push(later)
  }

  /** Calls again what may be repeated, as the client and workers do. */
  async #again<T>(call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call()
      } catch (error) {
        if (!isHoldfastError(error) || !error.retryable) throw error
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }

  /** Resolves when N were accepted. */
  async until(count: number): Promise<void> {
    await expect.poll(() => this.accepted.size, { timeout: 40_000, interval: 10 }).toBeGreaterThanOrEqual(count)
  }

  /** Resolves when this load's worker has done these. */
  async untilDone(ids: ReadonlySet<string>): Promise<void> {
    const left = () => [...ids].filter((id) => !this.#done.has(id)).length
    await expect.poll(left, { timeout: 40_000, interval: 10 }).toBe(0)
  }

  /** Leaves the machine to others for a moment. */
  async turn(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 5))
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    for (let at = 0; at < this.#running.length; at++) await this.#running[at]
  }

  /** Accepted jobs that are not done. */
  async unfinished(): Promise<string[]> {
    const found = await Promise.all([...this.accepted].map((id) => this.#store.get(id)))
    return [...this.accepted].filter((_, index) => found[index]?.state !== 'succeeded')
  }
}

/** A proxy that leads each connection to the next server. */
async function spreading(ports: readonly number[]): Promise<{ readonly port: number; close(): Promise<void> }> {
  let turn = 0
  const server: Server = createServer((socket) => {
    const there = tcpConnect(ports[turn++ % ports.length]!, '127.0.0.1')
    socket.pipe(there).pipe(socket)
    for (const each of [socket, there]) each.on('error', () => {})
    for (const [one, other] of [
      [socket, there],
      [there, socket],
    ] as const) {
      one.on('close', () => other.destroy())
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
      }),
  }
}
