// Every way in which one server takes over from another, under load: what was accepted ends, and nothing runs twice because of it, as long
// as producer and workers live.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FaultProxy } from '../../lab/chaos/proxy.js'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresPair } from '../../lab/servers/standby.js'
import { connect, defineJob, type Holdfast } from '../../src/index.js'

const FIRST_ANSWER_MS = 2_000

let pair: PostgresPair
const opened: Holdfast[] = []
const closing: (() => Promise<void>)[] = []

beforeEach(async () => {
  pair = await PostgresPair.open({ settings: { fsync: 'off' } })
}, 60_000)

afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
  for (const close of closing.splice(0)) await close()
  await pair.close()
}, 60_000)

/** A producer that enqueues without pause, and two workers, each in a client of its own. */
class Load {
  readonly runs = new Map<string, number>()
  readonly accepted: { readonly id: string; readonly atMs: number }[] = []
  readonly producer: Holdfast
  #isEnding = false
  #enqueuing: Promise<void> = Promise.resolve()

  private constructor(producer: Holdfast) {
    this.producer = producer
  }

  static async start(url: string): Promise<Load> {
    const open = async () => {
      const holdfast = await connect(url, { failoverMemory: true })
      opened.push(holdfast)
      return holdfast
    }
    const load = new Load(await open())
    const work = defineJob('work').handle(async (_, { id }) => {
      load.runs.set(id, (load.runs.get(id) ?? 0) + 1)
      await sleep(Math.random() * 50)
    })
    for (let count = 0; count < 2; count++) {
      await (await open()).worker({ handlers: [work], concurrency: 20 }).start()
    }
    load.#enqueuing = load.#enqueue()
    return load
  }

  async #enqueue(): Promise<void> {
    while (!this.#isEnding) {
      const { id } = await this.producer.enqueue('work', { some: 'payload' })
      this.accepted.push({ id, atMs: performance.now() })
      await sleep(5)
    }
  }

  /** Resolves when this many more jobs were accepted. */
  async more(count: number): Promise<void> {
    const aim = this.accepted.length + count
    await expect.poll(() => this.accepted.length, { timeout: 30_000 }).toBeGreaterThanOrEqual(aim)
  }

  /** Ends the producer's work, and waits until everything that was accepted has ended. */
  async end(): Promise<{ readonly lost: number; readonly twice: number }> {
    this.#isEnding = true
    await this.#enqueuing
    const ends = this.accepted.map(({ id }) => this.producer.wait(id, { timeout: '30s' }).then(() => true))
    const ended = await Promise.all(ends.map((end) => end.catch(() => false)))
    const counts = this.accepted.map(({ id }) => this.runs.get(id) ?? 0)
    return { lost: ended.filter((is) => !is).length, twice: counts.filter((count) => count > 1).length }
  }

  /** How long after this moment the first job was accepted that was sent after it. */
  firstAfter(atMs: number): number {
    return (this.accepted.find((job) => job.atMs > atMs)?.atMs ?? Number.POSITIVE_INFINITY) - atMs
  }
}

function hosts(): string {
  const both = [pair.primary, pair.standby].map(({ port }) => `127.0.0.1:${port}`)
  return `postgres://holdfast@${both.join(',')}/postgres`
}

/** Lets the standby fall behind by a second of the load. */
async function fallBehind(): Promise<void> {
  await pair.caughtUp()
  await pair.cutOff()
  await sleep(1_000)
}

const WAYS: Readonly<Record<string, () => Promise<void>>> = {
  'the primary crashes, its standby is up to date': async () => {
    await pair.failOver()
  },
  'the primary crashes, its standby is a second behind': async () => {
    await fallBehind()
    await pair.failOver()
  },
  'there is a planned switchover': () => pair.switchOver(),
  'the roles flip while connections stay open': async () => {
    await pair.refuseWrites()
    await pair.caughtUp()
    await pair.promote()
  },
  'the old primary comes back alone': async () => {
    await fallBehind()
    await pair.failOver()
    await sleep(1_000)
    await pair.standby.start()
  },
}

describe('0 lost and 0 run twice', () => {
  test.each(Object.entries(WAYS))(
    'when %s',
    async (_, takeOver) => {
      const load = await Load.start(hosts())
      await load.more(50)
      const watching = watchPrimary()

      await takeOver()
      const answeredMs = await watching
      await load.more(50)

      expect(await load.end()).toEqual({ lost: 0, twice: 0 })
      expect(load.firstAfter(answeredMs)).toBeLessThan(FIRST_ANSWER_MS)
    },
    120_000,
  )

  test('when the address leads to another server, a second behind', async () => {
    const address = await FaultProxy.open(pair.primary.port)
    closing.push(() => address.close())
    const load = await Load.start(address.url)
    await load.more(50)

    await fallBehind()
    await pair.failOver()
    address.retarget(pair.primary.port)
    await load.more(50)

    expect(await load.end()).toEqual({ lost: 0, twice: 0 })
  }, 120_000)

  test('when PgBouncer is pointed at another server, a second behind', async () => {
    const pooler = await PgBouncer.open({ target: pair.primary.port })
    closing.push(() => pooler.close())
    const load = await Load.start(pooler.url)
    await load.more(50)

    await fallBehind()
    await pair.failOver()
    await pooler.retarget(pair.primary.port)
    await load.more(50)

    expect(await load.end()).toEqual({ lost: 0, twice: 0 })
  }, 120_000)
})

/** Resolves with the moment when the server that is the standby now first takes writes. */
async function watchPrimary(): Promise<number> {
  const { url } = pair.standby
  for (;;) {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    try {
      await client.connect()
      const { rows } = await client.query('SELECT pg_is_in_recovery() AS follows')
      if (rows[0].follows === false) return performance.now()
    } catch {
      // It does not answer yet.
    } finally {
      void client.end().catch(() => {})
    }
    await sleep(20)
  }
}
