// A standby that had not received the last commits is promoted. What was accepted stays accepted, and what had run does not run again,
// as long as the processes that know of it live.

import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresPair } from '../../lab/servers/standby.js'
import { describeFailover } from '../../src/cli/doctor/failover-checks.js'
import { type ConnectOptions, connect, defineJob, type Holdfast, type HoldfastEvent } from '../../src/index.js'
import { Database } from '../../src/stores/postgres/database.js'
import { type LastFailover, lastFailover } from '../../src/stores/postgres/last-failover.js'

let pair: PostgresPair
const opened: Holdfast[] = []
const events: HoldfastEvent[] = []

beforeEach(async () => {
  pair = await PostgresPair.open({ settings: { fsync: 'off' } })
  events.length = 0
}, 60_000)

afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
  await pair.close()
}, 60_000)

async function open(options: ConnectOptions = {}): Promise<Holdfast> {
  const hosts = [pair.primary, pair.standby].map(({ port }) => `127.0.0.1:${port}`)
  return openAt(`postgres://holdfast@${hosts.join(',')}/postgres`, options)
}

async function openAt(url: string, options: ConnectOptions = {}): Promise<Holdfast> {
  const holdfast = await connect(url, { failoverMemory: true, ...options })
  holdfast.on((event) => events.push(event))
  opened.push(holdfast)
  return holdfast
}

function said(): Extract<HoldfastEvent, { name: 'failover.said' }>[] {
  return events.filter((event) => event.name === 'failover.said')
}

async function readLast(): Promise<LastFailover | null> {
  const settings = async () => ({ connectionString: pair.primary.url })
  const db = new Database({ settings, schema: 'holdfast', clock: null, connectMs: 5_000, deadlineMs: 5_000 })
  try {
    return await lastFailover(db)
  } finally {
    await db.close()
  }
}

/** How often each job was run, and a gate that slow ones wait for. */
class Runs {
  readonly counts = new Map<string, number>()
  readonly #waiting: (() => void)[] = []
  readonly #job = defineJob<{ slow?: boolean }>('work')

  handler() {
    return this.#job.handle(async ({ slow }, { id }) => {
      this.counts.set(id, (this.counts.get(id) ?? 0) + 1)
      if (slow) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    })
  }

  letGo(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  get waiting(): number {
    return this.#waiting.length
  }
}

describe('a failover that loses the last commits', () => {
  test('loses no job whose producer lives', async () => {
    const producer = await open({ upkeep: false })
    const before = await producer.enqueueMany('work', Array(20).fill({}))
    await pair.caughtUp()
    await pair.cutOff()
    const plain = await producer.enqueueMany('work', Array(200).fill({ payload: true }))
    const timed = await producer.enqueue('work', {}, { delay: '1h' })
    const keyed = await producer.enqueue('work', {}, { idempotencyKey: 'one', tags: ['a'] })
    const child = await producer.enqueue('work', {}, { after: [keyed.id] })
    const grouped = await producer.enqueue('work', {}, { queue: 'apart', group: 'acme' })

    await pair.failOver()
    await producer.enqueue('work')

    await expect.poll(() => said().length).toBe(1)
    expect(said()[0]).toMatchObject({ jobs: 204, inside: 0 })
    const ids = [...before, ...plain, timed, keyed, child, grouped].map(({ id }) => id)
    expect(await Promise.all(ids.map(async (id) => (await producer.get(id))?.id))).toEqual(ids)
    expect((await producer.get(timed.id))?.state).toBe('scheduled')
    expect((await producer.get(child.id))?.state).toBe('blocked')
    expect((await producer.enqueue('work', {}, { idempotencyKey: 'one' })).id).toBe(keyed.id)
    expect((await producer.queues()).map(({ name }) => name).sort()).toEqual(['apart', 'default'])
    const lines = describeFailover(await readLast())
    expect(lines[0]).toContain('Timeline 2 was first seen at')
    expect(lines[1]).toMatch(/^Commits between \S+Z and \S+Z \(\d+\.\d s\) may be lost/)
    expect(lines.join('\n')).toContain(
      '1 processes said again what was missing: 204 jobs, 0 claims, 0 settlements, 0 operations.',
    )
    const { entries } = await producer.audit({ action: 'timeline_changed' })
    expect(entries).toMatchObject([{ actor: 'holdfast', target: '2', details: { before: { timeline: 1 } } }])
  }, 30_000)

  test('names jobs of callers’ transactions that are not there, and does not repeat them', async () => {
    const producer = await open({ upkeep: false })
    await producer.enqueue('work', {})
    await pair.caughtUp()
    await pair.cutOff()
    const client = new pg.Client({ connectionString: pair.primary.url })
    await client.connect()
    await client.query('BEGIN')
    const { id } = await producer.enqueue('work', {}, { tx: client })
    await client.query('COMMIT')
    await client.end()

    await pair.failOver()
    await producer.enqueue('work', {})

    await expect.poll(() => said(), { timeout: 5_000 }).toMatchObject([{ jobs: 0, inside: 1 }])
    expect(await producer.get(id)).toBeNull()
  }, 30_000)

  test('runs no job again that had run, and none that is running', async () => {
    const producer = await open()
    const runs = new Runs()
    const [ended, others] = [await open(), await open()]
    const worker = (holdfast: Holdfast) => holdfast.worker({ handlers: [runs.handler()], concurrency: 100 }).start()
    await worker(ended)
    const first = await producer.enqueueMany('work', Array(20).fill({}))
    await Promise.all(first.map(({ id }) => producer.wait(id)))
    await pair.caughtUp()
    const known = await producer.enqueueMany('work', Array(20).fill({ slow: true }))
    await pair.caughtUp()
    await pair.cutOff()
    await worker(others)
    const lost = await producer.enqueueMany('work', Array(80).fill({}))
    await Promise.all(lost.map(({ id }) => producer.wait(id)))
    const slow = await producer.enqueueMany('work', Array(10).fill({ slow: true }))
    await expect.poll(() => runs.waiting, { timeout: 5_000 }).toBe(30)

    await pair.failOver()
    const after = await producer.enqueueMany('work', Array(20).fill({}))
    await Promise.all(after.map(({ id }) => producer.wait(id, { timeout: '20s' })))
    await expect.poll(() => said().length, { timeout: 8_000 }).toBe(3)
    runs.letGo()
    const all = [...first, ...known, ...lost, ...slow, ...after].map(({ id }) => id)
    await Promise.all(all.map((id) => producer.wait(id, { timeout: '20s' })))

    expect(all.map((id) => runs.counts.get(id))).toEqual(all.map(() => 1))
    expect(events.filter(({ name }) => name === 'lease.lost' || name === 'job.rescued')).toEqual([])
    expect((await producer.list({ state: 'succeeded', limit: 200 })).jobs).toHaveLength(all.length)
  }, 40_000)
})

describe('PgBouncer in transaction mode', () => {
  test('that is pointed at another server is noticed with the next statement, though no connection broke', async () => {
    const pooler = await PgBouncer.open({ target: pair.primary.port })
    const runs = new Runs()
    const producer = await openAt(pooler.url, { upkeep: false })
    const working = await openAt(pooler.url)
    await working.worker({ handlers: [runs.handler()], concurrency: 20 }).start()
    const known = await producer.enqueue('work', {})
    await producer.wait(known.id)
    await pair.caughtUp()
    await pair.cutOff()
    const lost = await producer.enqueueMany('work', Array(50).fill({}))
    await Promise.all(lost.map(({ id }) => producer.wait(id)))
    const slow = await producer.enqueue('work', { slow: true })
    await expect.poll(() => runs.waiting, { timeout: 5_000 }).toBe(1)

    // The old one stays up, as it does behind a pooler that is reloaded too early.
    await pair.promote()
    await pooler.retarget(pair.primary.port)
    const after = await producer.enqueue('work', {})
    await producer.wait(after.id, { timeout: '15s' })
    await expect.poll(() => said().length, { timeout: 8_000 }).toBe(2)
    runs.letGo()
    await producer.wait(slow.id, { timeout: '15s' })

    const all = [known, ...lost, slow, after].map(({ id }) => id)
    expect(all.map((id) => runs.counts.get(id))).toEqual(all.map(() => 1))
    expect((await producer.list({ state: 'succeeded', limit: 200 })).jobs).toHaveLength(all.length)
    await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
    await pooler.close()
  }, 40_000)
})
