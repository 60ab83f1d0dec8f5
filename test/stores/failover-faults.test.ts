// Failovers in ways that are harder to notice: a primary that freezes, a process that makes no calls, a second promotion to the same
// timeline, a program that ends meanwhile. A standby that had not received the last commits is promoted each time.

import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FaultProxy } from '../../lab/chaos/proxy.js'
import { PostgresPair } from '../../lab/servers/standby.js'
import {
  type ConnectOptions,
  connect,
  defineJob,
  type EnqueueOptions,
  gzip,
  type Holdfast,
  type HoldfastEvent,
} from '../../src/index.js'

let pair: PostgresPair
const opened: Holdfast[] = []
const closing: (() => Promise<void>)[] = []
const events: HoldfastEvent[] = []

beforeEach(async () => {
  pair = await PostgresPair.open({ settings: { fsync: 'off' } })
  events.length = 0
}, 60_000)

afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
  for (const close of closing.splice(0)) await close()
  await pair.close()
}, 60_000)

async function open(options: ConnectOptions = {}, ports = [pair.primary.port, pair.standby.port]): Promise<Holdfast> {
  const hosts = ports.map((port) => `127.0.0.1:${port}`)
  const holdfast = await connect(`postgres://holdfast@${hosts.join(',')}/postgres`, {
    failoverMemory: true,
    ...options,
  })
  holdfast.on((event) => events.push(event))
  opened.push(holdfast)
  return holdfast
}

const said = () => events.filter((event) => event.name === 'failover.said')
const failures = (during: string) => events.filter((event) => event.name === 'store.failed' && event.during === during)

async function ask<T>(text: string, values: readonly unknown[] = []): Promise<T> {
  const client = new pg.Client({ connectionString: pair.primary.url })
  await client.connect()
  try {
    return (await client.query({ text, values: [...values], rowMode: 'array' })).rows[0]?.[0]
  } finally {
    await client.end()
  }
}

const isThere = (id: string) => ask<boolean>('SELECT EXISTS (SELECT FROM holdfast.jobs WHERE id = $1)', [id])

test('a process that makes no call after the failover says what it remembers', async () => {
  const producer = await open({ upkeep: false })
  await producer.enqueue('work')
  await pair.caughtUp()
  await pair.cutOff()
  const { id } = await producer.enqueue('work')

  await pair.failOver()

  await expect.poll(() => said(), { timeout: 10_000 }).toMatchObject([{ jobs: 1 }])
  expect(await isThere(id)).toBe(true)
}, 60_000)

test('a primary that freezes: no job is lost, and none runs again, though no connection breaks', async () => {
  const counts = new Map<string, number>()
  const work = defineJob('work').handle(async (_, { id }) => void counts.set(id, (counts.get(id) ?? 0) + 1))
  const [producer, one, other] = [await open({ upkeep: false }), await open(), await open()]
  await one.worker({ handlers: [work] }).start()
  await other.worker({ handlers: [work] }).start()
  const known = await producer.enqueueMany('work', Array(10).fill({}))
  await Promise.all(known.map(({ id }) => producer.wait(id)))
  await pair.caughtUp()
  await pair.cutOff()
  const lost = await producer.enqueueMany('work', Array(40).fill({}))
  await Promise.all(lost.map(({ id }) => producer.wait(id)))

  const thaw = await pair.freeze()
  try {
    await pair.promote()
    await expect.poll(() => said().length, { timeout: 15_000 }).toBe(3)
    const after = await producer.enqueueMany('work', Array(10).fill({}))
    const all = [...known, ...lost, ...after].map(({ id }) => id)
    await Promise.all(all.map((id) => producer.wait(id, { timeout: '20s' })))

    expect(all.map((id) => counts.get(id))).toEqual(all.map(() => 1))
  } finally {
    thaw()
  }
}, 90_000)

test('a second standby that is promoted to the same timeline hears of its jobs as well', async () => {
  const producer = await open({ upkeep: false })
  await producer.enqueue('work')
  await pair.caughtUp()
  await pair.cutOff()
  await pair.failOver()
  const { id } = await producer.enqueue('work')
  await expect.poll(() => said().length, { timeout: 10_000 }).toBe(1)
  // To this process a server that forgets the last change and its jobs looks as the second standby does: same timeline, another history.
  await ask('DELETE FROM holdfast.ready WHERE id = $1', [id])
  await ask('DELETE FROM holdfast.jobs WHERE id = $1', [id])
  await ask('UPDATE holdfast.timeline SET epoch = gen_random_uuid(), since = clock_timestamp()')
  await ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'")

  await expect.poll(() => said().length, { timeout: 10_000 }).toBe(2)
  expect(await isThere(id)).toBe(true)
}, 60_000)

test('close() says what is remembered before it ends', async () => {
  const producer = await open({ upkeep: false })
  await producer.enqueue('work')
  await pair.caughtUp()
  await pair.cutOff()
  const { id } = await producer.enqueue('work')
  await pair.failOver()

  opened.splice(0)
  await producer.close()

  expect(await isThere(id)).toBe(true)
}, 60_000)

/** A handler that waits, and then settles its job in a transaction of its own on the server that is the primary by then. */
class Completing {
  runs = 0
  goOn: () => void = () => {}
  readonly isCompleted: Promise<void>
  readonly work

  constructor() {
    let completed: () => void = () => {}
    this.isCompleted = new Promise((resolve) => {
      completed = resolve
    })
    const gate = new Promise<void>((resolve) => {
      this.goOn = resolve
    })
    this.work = defineJob('work').handle(async (_, ctx) => {
      this.runs++
      await gate
      const client = new pg.Client({ connectionString: pair.primary.url })
      await client.connect()
      try {
        await client.query('BEGIN')
        await ctx.complete(client)
        await client.query('COMMIT')
        completed()
      } finally {
        await client.end()
      }
    })
  }
}

test('ctx.complete(tx) on the new server settles a job whose claim that had lost', async () => {
  const working = await open()
  const completing = new Completing()
  await working.worker({ handlers: [completing.work] }).start()
  await pair.caughtUp()
  await pair.cutOff()
  const { id } = await working.enqueue('work')
  await expect.poll(() => completing.runs).toBe(1)
  await pair.failOver()
  completing.goOn()

  await completing.isCompleted
  await working.wait(id, { timeout: '20s' })
  expect(completing.runs).toBe(1)
}, 60_000)

test('and also where the handler reaches the new server before its process does', async () => {
  const [toOld, toNew] = await proxies()
  toNew.refuse()
  const working = await open({}, [toOld.port, toNew.port])
  const completing = new Completing()
  await working.worker({ handlers: [completing.work] }).start()
  await pair.caughtUp()
  await pair.cutOff()
  const { id } = await working.enqueue('work')
  await expect.poll(() => completing.runs).toBe(1)
  await pair.failOver()
  completing.goOn()
  await expect.poll(() => failures('say again').length, { timeout: 10_000 }).toBeGreaterThan(1)
  toNew.heal()

  await completing.isCompleted
  await working.wait(id, { timeout: '20s' })
  expect(completing.runs).toBe(1)
}, 60_000)

test('jobs that ran before their enqueues were answered do not run again when their producers come last', async () => {
  // The first has a job to say again, and may meet the new server by that. The others meet it by the very enqueue that is repeated.
  // What the last ones send has other objects each time, and cannot be known by those.
  const sealed = { codec: gzip() }
  const producers = [
    await LateProducer.open({}),
    await LateProducer.open({}),
    await LateProducer.open(sealed),
    await LateProducer.open(sealed, { idempotencyKey: 'once' }),
  ]
  const working = await open(sealed)
  const counts = new Map<string, number>()
  const ran = new Signal()
  const work = defineJob('work').handle(async (_, { id }) => {
    counts.set(id, (counts.get(id) ?? 0) + 1)
    if (counts.size === 1 + producers.length) ran.give()
  })
  await working.worker({ handlers: [work] }).start()
  await (await producers[0]!.holdfast.enqueue('work')).wait()
  await pair.caughtUp()
  await pair.cutOff()
  for (const producer of producers) await producer.enqueueUnanswered()
  await ran.given
  await Promise.all([...counts.keys()].map((id) => working.wait(id)))

  const spoken = new Signal()
  working.on((event) => event.name === 'failover.said' && spoken.give())
  await pair.failOver()
  // Their worker waits for the producers for six seconds.
  await spoken.given
  for (const producer of producers) await producer.arrive()
  // It waits behind whatever they have enqueued.
  await (await working.enqueue('work')).wait()

  expect([...counts.values()]).toEqual(Array(2 + producers.length).fill(1))
}, 120_000)

test('claims wait longer than usual for a worker that has begun to say what it knows', async () => {
  const [toOld, toNew] = await proxies()
  toNew.refuse()
  const [slow, operator] = [await open({}, [toOld.port, toNew.port]), await open({ failoverMemory: false })]
  const counts = new Map<string, number>()
  const work = defineJob('work').handle(async (_, { id }) => void counts.set(id, (counts.get(id) ?? 0) + 1))
  await slow.worker({ handlers: [work] }).start()
  await operator.pause('default')
  const { id } = await operator.enqueue('work')
  await pair.caughtUp()
  await pair.cutOff()
  await operator.resume('default')
  await operator.wait(id)
  const other = await open()
  await other.worker({ handlers: [work] }).start()

  await pair.failOver()
  const client = new pg.Client({ connectionString: pair.primary.url })
  await client.connect()
  closing.push(() => client.end())
  // Which leases are missing cannot be asked meanwhile. Claims do not read that table.
  await client.query('BEGIN; LOCK TABLE holdfast.dead')
  toNew.heal()
  await operator.resume('default')
  const age = 'SELECT extract(epoch FROM clock_timestamp() - since)::float8 FROM holdfast.timeline'
  await expect.poll(() => ask<number | null>(age), { timeout: 20_000 }).toBeGreaterThan(9.5)
  await client.query('ROLLBACK')
  await (await other.enqueue('work')).wait()

  expect([...counts.values()]).toEqual([1, 1])
}, 90_000)

/** Something that happens once. */
class Signal {
  give: () => void = () => {}
  readonly given = new Promise<void>((resolve) => {
    this.give = resolve
  })
}

/** A producer that does not reach the new primary until it may. */
class LateProducer {
  readonly holdfast: Holdfast
  readonly #toOld: FaultProxy
  readonly #toNew: FaultProxy
  readonly #options: EnqueueOptions
  #enqueued: Promise<unknown> = Promise.resolve()

  private constructor(holdfast: Holdfast, [toOld, toNew]: readonly [FaultProxy, FaultProxy], options: EnqueueOptions) {
    this.#options = options
    this.holdfast = holdfast
    this.#toOld = toOld
    this.#toNew = toNew
  }

  static async open(options: ConnectOptions, ofJob: EnqueueOptions = {}): Promise<LateProducer> {
    const [toOld, toNew] = await proxies()
    toNew.refuse()
    const holdfast = await open({ upkeep: false, enqueueTimeout: '2m', ...options }, [toOld.port, toNew.port])
    return new LateProducer(holdfast, [toOld, toNew], ofJob)
  }

  /** Enqueues a job that the primary takes, and that it gets no answer to. */
  async enqueueUnanswered(): Promise<void> {
    const statement = this.#options.idempotencyKey === undefined ? 'enqueue_plain' : 'enqueue_full'
    const isCut = this.#toOld
      .loseAnswerTo(({ type, text }) => type === 'B' && text === statement)
      .then(() => this.#toOld.refuse())
    this.#enqueued = this.holdfast.enqueue('work', { text: 'again and '.repeat(200) }, this.#options)
    await isCut
  }

  /** Reaches the new primary, and resolves when its enqueue was answered. */
  async arrive(): Promise<void> {
    this.#toNew.heal()
    await this.#enqueued
  }
}

/** One in front of the primary and one in front of the standby. */
async function proxies(): Promise<readonly [FaultProxy, FaultProxy]> {
  const both = [await FaultProxy.open(pair.primary.port), await FaultProxy.open(pair.standby.port)] as const
  closing.push(...both.map((proxy) => () => proxy.close()))
  return both
}
