// Claims while somebody holds an old snapshot: where they start, what they find, and who is named.

import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { describeHorizon } from '../../src/core/horizon.js'
import type { NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { Floors } from '../../src/stores/postgres/floors.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { newJob, QUEUE } from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `floors_${process.pid}`
const claimOf = (store: Store, limit: number, types: readonly string[] | null = null) =>
  store.claim({ queues: [{ queue: QUEUE, limit }], types, worker: 'w', leaseMs: 60_000 })

let store: Store
let floors: Floors
let sql: pg.Client

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url, application_name: 'a report' })
  await sql.connect()
})

beforeEach(async () => {
  floors = new Floors()
  floors.isOn = true
  store = await openCleanStore(url, schema, manualClock(), floors)
})

afterAll(async () => {
  await sql.end()
  await dropSchema(url, schema)
})

describe('claims from a floor', () => {
  test('take jobs in the order of claims from the beginning', async () => {
    const memory = memoryStore({ clock: manualClock() })
    const order: Record<'floor' | 'beginning', string[]> = { floor: [], beginning: [] }
    for (let round = 0; round < 30; round++) {
      const jobs = Array.from({ length: 12 }, (_, n) => sampleJob(round * 12 + n))
      await store.enqueue(jobs)
      await memory.enqueue(jobs)
      const types = round % 3 === 0 ? ['even', 'odd'] : null
      order.floor.push(...(await claimOf(store, 9, types)).jobs.map(({ id }) => id))
      order.beginning.push(...(await claimOf(memory, 9, types)).jobs.map(({ id }) => id))
    }
    order.floor.push(...(await claimOf(store, 1_000)).jobs.map(({ id }) => id))
    order.beginning.push(...(await claimOf(memory, 1_000)).jobs.map(({ id }) => id))

    expect(order.floor).toEqual(order.beginning)
    expect(order.floor).toHaveLength(360)
  })

  test('step over none of the jobs that were claimed while the snapshot was held', async () => {
    floors = new (class extends Floors {
      override lookBelow(): void {}
    })()
    floors.isOn = true
    store = await openCleanStore(url, schema, manualClock(), floors)
    await sql.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await sql.query(`SELECT count(*) FROM ${schema}.ready`)
    try {
      for (let batch = 0; batch < 10; batch++) {
        await store.enqueue(Array.from({ length: 1_000 }, () => newJob()))
        await claimOf(store, 1_000)
      }
      await store.enqueue([newJob()])

      const withFloor = await entriesRead(store)
      await store.enqueue([newJob()])
      floors.isOn = false
      const withoutFloor = await entriesRead(store)

      expect(withFloor).toBeLessThan(100)
      expect(withoutFloor).toBeGreaterThan(9_000)
    } finally {
      await sql.query('ROLLBACK')
    }
  })

  test('find a job that was written before the floor and committed after it', async () => {
    const late = newJob()
    const writer = new pg.Client({ connectionString: url })
    await writer.connect()
    await writer.query('BEGIN')
    await store.enqueue([late], { tx: writer })
    for (let n = 0; n < 3; n++) {
      await store.enqueue([newJob()])
      await claimOf(store, 10)
    }
    await writer.query('COMMIT')
    await writer.end()

    // The look is not waited for.
    let found = false
    for (let tries = 0; tries < 400 && !found; tries++) {
      const { jobs } = await claimOf(store, 10)
      found = jobs.some(({ id }) => id === late.id)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }

    expect(found).toBe(true)
  }, 30_000)
})

// F48 of docs/findings/chaos.md.
describe('a job committed late while a snapshot is held and the load goes on', () => {
  test('is found and run', async () => {
    const holder = await connected()
    const writer = await connected()
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await holder.query(`SELECT count(*) FROM ${schema}.ready`)
    const taken = new Set<string>()
    const foundAfterMs: number[] = []
    let isLoaded = true
    let load: Promise<void>[] = []
    try {
      // Claims of several workers overlap, as they do in a busy process: some are in flight whenever the floor is lowered.
      load = Array.from({ length: 4 }, async () => {
        while (isLoaded) {
          await store.enqueue(Array.from({ length: 50 }, () => newJob()))
          for (const { id } of (await claimOf(store, 50)).jobs) taken.add(id)
        }
      })
      for (let round = 0; round < 5; round++) {
        const late = newJob()
        await writer.query('BEGIN')
        await store.enqueue([late], { tx: writer })
        const before = taken.size
        await expect.poll(() => taken.size, { timeout: 10_000 }).toBeGreaterThan(before + 1_000)
        await writer.query('COMMIT')
        const committedAt = performance.now()
        await expect.poll(() => taken.has(late.id), { interval: 10, timeout: 5_000 }).toBe(true)
        foundAfterMs.push(performance.now() - committedAt)
      }
    } finally {
      isLoaded = false
      await Promise.all(load)
      await holder.end()
      await writer.end()
    }

    // Two looks a second: 2 s is what a busy machine may make of them.
    expect(Math.min(...foundAfterMs)).toBeLessThan(2_000)
  }, 60_000)

  test('runs although nobody else claims: the look that finds it wakes the workers', async () => {
    const writer = await connected()
    const late = newJob()
    await writer.query('BEGIN')
    await store.enqueue([late], { tx: writer })
    await store.enqueue([newJob()])
    await claimOf(store, 10)
    await writer.query('COMMIT')
    await writer.end()
    // Wake-ups after the caller's own transaction have passed by then.
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    let isWoken = false
    const unlisten = store.listen({
      ready: () => {
        isWoken = true
      },
    })

    await claimOf(store, 10)
    await expect.poll(() => isWoken, { timeout: 5_000 }).toBe(true)
    const { jobs } = await claimOf(store, 10)
    unlisten()

    expect(jobs.map(({ id }) => id)).toEqual([late.id])
  }, 30_000)
})

describe('floors', () => {
  test('are not raised by a claim that began before they were lowered', async () => {
    const own = new Floors()
    own.isOn = true
    own.learn([taken(10)], null, own.of([QUEUE], null))
    own.learn([taken(100)], null, own.of([QUEUE], null))
    const before = own.of([QUEUE], null)
    own.lower(QUEUE, null, 49n)

    own.learn([taken(120)], null, before)
    const kept = own.of([QUEUE], null)
    own.learn([taken(50)], null, kept)

    expect(kept.backs).toEqual(['49'])
    expect(own.of([QUEUE], null).backs).toEqual(['50'])
  })

  test('stay for two minutes after a snapshot was given up, until what died meanwhile can have been cleared away', () => {
    const own = new Floors()

    own.observe(true, 1_000)
    own.observe(false, 60_000)
    const after = own.isOn
    own.observe(false, 121_001)

    expect(after).toBe(true)
    expect(own.isOn).toBe(false)
  })
})

describe('the horizon', () => {
  test('names the process that holds the oldest snapshot', async () => {
    await sql.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    const { rows } = await sql.query('SELECT pg_backend_pid() AS pid')
    try {
      // Other tests on this server may hold an older one for a moment.
      let horizon = await store.horizon()
      for (let tries = 0; tries < 200 && horizon?.holder?.pid !== rows[0].pid; tries++) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        horizon = await store.horizon()
      }

      expect(horizon?.holder).toMatchObject({ pid: rows[0].pid, kind: 'transaction', application: 'a report' })
      expect(describeHorizon(horizon!)).toContain(`process ${rows[0].pid} (a report, user `)
      expect(describeHorizon(horizon!)).toContain(`SELECT pg_terminate_backend(${rows[0].pid})`)
    } finally {
      await sql.query('ROLLBACK')
    }
  })
})

function taken(position: number) {
  return { queue: QUEUE, priority: 0, position: String(position) }
}

async function connected(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return client
}

function sampleJob(n: number): NewJob {
  const priority = n % 7 === 0 ? 5 : n % 11 === 0 ? -5 : 0
  return newJob({ priority, type: n % 2 === 0 ? 'even' : 'odd' })
}

/** How many entries of the backlog's index a claim read, live or dead. The server reports what a connection did with the next
 *  statement it sends a second later, so a claim of nothing follows each. */
async function entriesRead(claimer: Store): Promise<number> {
  const read = async () => {
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    await claimOf(claimer, 0)
    const { rows } = await counter.query(
      `SELECT idx_tup_read::float8 AS read FROM pg_stat_all_indexes WHERE schemaname = $1 AND indexrelname = 'ready_in_claim_order'`,
      [schema],
    )
    return rows[0].read as number
  }
  const counter = new pg.Client({ connectionString: url })
  await counter.connect()
  try {
    const before = await read()
    await claimOf(claimer, 1)
    return (await read()) - before
  } finally {
    await counter.end()
  }
}
